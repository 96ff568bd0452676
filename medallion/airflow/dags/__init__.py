"""The DAGs of a project, a module each: a DAG file calls the function that bears the module's name."""
