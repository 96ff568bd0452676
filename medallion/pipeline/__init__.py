"""The steps of an hour, and the operations made of them: refresh, follow, maintain, erase."""
