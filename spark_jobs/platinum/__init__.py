"""Platinum: what a decision is made from. One module is one table; reads Silver, Gold and Platinum, never Bronze."""
