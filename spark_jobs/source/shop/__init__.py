"""The demo shop: what it sells, who buys, and what happens in it day by day.

Whatever will ever happen to a row is drawn on the day it comes into being, as row images with the time during which
each is current. The snapshot and the hours of changes are cuts through these images, so they cannot disagree.
"""
