"""SQL is laid out for reading, and means what it meant."""

import sqlglot

from medallion.derive.sql_lines import WIDTH, sql_lines


def test_what_only_passes_a_relation_on_is_left_out() -> None:
    kept = "WITH days AS (SELECT day AS day, SUM(n) AS n FROM {orders} GROUP BY day) SELECT * FROM days"
    assert sql_lines(kept) == ["SELECT day, SUM(n) AS n", "FROM orders", "GROUP BY day"]
    rest = "WITH days AS (SELECT * FROM {days}), old AS (SELECT day FROM days) SELECT day FROM old"
    assert sql_lines(rest) == ["WITH old AS (", "  SELECT day", "  FROM days", ")", "SELECT day", "FROM old"]
    assert sql_lines("WITH days AS (SELECT * FROM {days}) SELECT day FROM days") == ["SELECT day", "FROM days"]
    above = "WITH a AS (SELECT x FROM {t}), b AS (SELECT x FROM a WHERE x > 1) SELECT * FROM b"
    assert sql_lines(above) == ["WITH a AS (", "  SELECT x", "  FROM t", ")", "SELECT x", "FROM a", "WHERE x > 1"]


def test_a_relation_that_is_read_otherwise_stays() -> None:
    assert sql_lines("WITH a AS (SELECT * FROM {b}) SELECT x FROM a")[0] == "WITH a AS ("
    assert sql_lines("WITH a AS (SELECT x FROM {b}) SELECT * FROM a WHERE x = 1")[0] == "WITH a AS ("


def test_items_fill_lines_and_the_query_stays_the_same() -> None:
    items = ", ".join(f"a_rather_long_name_{n} + 1 AS another_{n}" for n in range(9))
    query = f"SELECT {items} FROM t WHERE x IN (SELECT y FROM u) AND z = 'SELECT, a'"
    lines = sql_lines(query)
    assert 8 < len(lines) < 20 and max(map(len, lines)) <= WIDTH
    assert sqlglot.parse_one(" ".join(lines), dialect="spark") == sqlglot.parse_one(query, dialect="spark")


def test_what_cannot_be_parsed_is_shown_as_it_is() -> None:
    assert sql_lines("SELECT FROM WHERE )") == ["SELECT FROM WHERE )"]
