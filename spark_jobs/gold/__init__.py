"""Gold: business answers. One module is one table; reads Silver and Gold, never Bronze."""
