"""The DAGs of a project, one module each: a DAG file calls the function with the module's name."""
