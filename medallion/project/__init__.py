"""A project: a folder with medallion.toml, and the tables that it declares."""

from medallion.project.project import Project, find_project, find_template, project_above, project_at

__all__ = ["Project", "find_project", "find_template", "project_above", "project_at"]
