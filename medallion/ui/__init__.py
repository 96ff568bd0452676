"""Pages as functions of the logs; knows no scheduler."""
