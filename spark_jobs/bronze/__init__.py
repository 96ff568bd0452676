"""Bronze: the change feeds as the source systems have them. One module is one feed."""
