"""The medallion command."""
