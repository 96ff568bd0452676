"""The groups of a last SELECT are set apart at positions of its text; what is of another form is left alone."""

import pytest

from medallion.derive.groups import with_groups


@pytest.mark.parametrize(
    ("query", "apart"),
    [
        (
            "SELECT a, COUNT(*) AS n FROM {t} GROUP BY a",
            "WITH _groups AS (SELECT a AS _key0, COUNT(*) AS _sum0 FROM {t} GROUP BY a)"
            " SELECT _key0 AS a, _sum0 AS n FROM _groups",
        ),
        (
            "WITH t AS (SELECT 1) SELECT t.a, SUM(b) / COUNT(b) AS r, SUM(b) AS b FROM t WHERE b > 0 GROUP BY t.a"
            " ORDER BY r, t.a LIMIT 3",
            "WITH t AS (SELECT 1), _groups AS (SELECT t.a AS _key0, SUM(b) AS _sum0, COUNT(b) AS _sum1 FROM t"
            " WHERE b > 0 GROUP BY t.a) SELECT _key0 AS a, _sum0 / _sum1 AS r, _sum0 AS b FROM _groups"
            " ORDER BY r , _key0 LIMIT 3",
        ),
        (
            "SELECT CAST(at AS DATE) AS day, 'GROUP BY' AS x, COUNT(*) FILTER (WHERE a = 'FROM') AS n FROM {t}"
            " GROUP BY day",
            "WITH _groups AS (SELECT CAST(at AS DATE) AS _key0, COUNT(*) FILTER (WHERE a = 'FROM') AS _sum0 FROM {t}"
            " GROUP BY CAST(at AS DATE)) SELECT _key0 AS day, 'GROUP BY' AS x, _sum0 AS n FROM _groups",
        ),
        ("SELECT a, COUNT(*) FROM {t} GROUP BY a", None),
        ("SELECT COUNT(*) AS n FROM {t}", None),
        ("SELECT a, COUNT(*) AS n FROM {t} GROUP BY 1", None),
        ("SELECT a, COUNT(*) AS n FROM {t} GROUP BY ALL HAVING n > 1", None),
        ("SELECT DISTINCT a, COUNT(*) AS n FROM {t} GROUP BY a", None),
        ("SELECT a, COUNT(*) AS n FROM {t} GROUP BY a UNION ALL SELECT 1, 2", None),
        ("SELECT * FROM {t}", None),
        ("VALUES (1)", None),
        ("", None),
    ],
)
def test_groups_are_set_apart_or_the_query_is_left_alone(query: str, apart: str | None) -> None:
    assert with_groups(query) == apart
