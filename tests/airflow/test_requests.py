"""What a run is asked for: unknown keys and texts that are no hour are refused in words, and nothing is landed."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from dags.daily_maintenance import dag as maintenance
from dags.erase import dag as erase
from dags.hourly_refresh import dag
from dags.hourly_self_check import dag as look
from dags.refresh_on_arrival import dag as on_arrival
from dags.replay_quarantine import dag as replay
from medallion.airflow import landing
from medallion.airflow.runs import RequestRefused, requested_hour, require_known_keys
from medallion.airflow.tasks import record_failure
from medallion.errors import UsageError
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.run import Run
from tests.airflow.test_redo import shop  # noqa: F401 (a fixture)
from tests.shop import SHOP
from tests.unit.small_lake import H1, H2, Shop


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("tables", "did you mean select?"),
        ("strategie", "did you mean strategy?"),
        ("Hour", "did you mean hour?"),
        ("hours", "did you mean hour?"),
        ("x" * 500, "It may have hour, strategy, select, action, confirmation, spark"),
    ],
)
def test_an_unknown_key_of_a_configuration_is_refused_with_the_nearest_known_one(key: str, hint: str) -> None:
    with pytest.raises(RequestRefused) as refusal:
        require_known_keys({"hour": None, key: "full"}, dag.params)
    assert hint in str(refusal.value) and "nothing was changed" in str(refusal.value)
    assert len(str(refusal.value)) < 300
    require_known_keys({"hour": None, "select": "", "until": H1}, dag.params)


FORMS = [dag, maintenance, erase, look, on_arrival, replay]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.dag_id)
def test_a_form_demands_no_field_that_may_be_empty_or_that_only_offers_choices(form: Any) -> None:
    for key in form.params:
        param = form.params.get_param(key)
        kind = param.schema.get("type")  # Airflow demands a value, with a red star, for any type without null
        is_free = param.value in (None, "") or isinstance(param.value, bool) or "enum" in param.schema
        assert not is_free or kind is None or "null" in kind, f"{key} cannot be left empty"


@pytest.mark.parametrize("given", [{"subjects_file": " /a "}, {"subjects_variable": "a name "}, {}], ids=str)
def test_an_erasure_can_be_asked_for_by_a_file_or_a_variable_alone_or_by_neither(given: dict[str, str]) -> None:
    form = deepcopy(erase.params)  # a parameter keeps what it was resolved to
    for key in form:
        param = form.get_param(key)
        param.resolve(given.get(key, param.value))  # raises ParamValidationError


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.dag_id)
def test_labels_of_a_form_are_the_words_of_its_keys(form: Any) -> None:
    for key in form.params:
        assert form.params.get_param(key).schema["title"] == key.replace("_", " ").capitalize()


def trigger(notes: dict[str, str], conf: dict[str, Any]) -> str:
    def push(key: str, value: str) -> None:
        notes[key] = value

    ti = SimpleNamespace(try_number=1, xcom_push=push, xcom_pull=lambda **_: None)
    run = SimpleNamespace(
        dag_id=dag.dag_id, run_id="a_run", run_type="manual", data_interval_start=None, conf=conf, logical_date=None
    )
    params = dict.fromkeys(dag.params) | {"strategy": "full", "action": "refresh"} | conf
    return dag.get_task("land_changes").execute({"ti": ti, "dag_run": run, "params": params})


@pytest.fixture
def asked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:  # noqa: F811
    """The lake that the requests are about: two published hours, and a third at the source."""
    monkeypatch.setattr(landing, "tables_at_parse_time", lambda _: shop.tables)
    monkeypatch.setattr("medallion.airflow.runs.SchedulerRuns.active", lambda *_: False)
    shop.put(H2, {2: H2})
    return shop


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ({"tables": "gold_orders"}, "unknown key 'tables': did you mean select"),
        ({"strategie": "full"}, "unknown key 'strategie': did you mean strategy"),
        ({"hour": "2025-11-30"}, "'2025-11-30' is not an hour: write YYYY-MM-DDTHH"),
        ({"hour": "../../etc/passwd"}, "is not an hour"),
        ({"hour": "2025-11-30T02'; DROP TABLE x"}, "is not an hour"),
        ({"hour": 2025113002}, "hour must be text, and is 2025113002"),
        ({"hour": [H2]}, "hour must be text"),
        ({"select": ["gold_orders"]}, "select must be text"),
        ({"hour": H2, "select": "gold_order"}, "did you mean gold_orders"),
        ({"hour": H2, "until": 7}, "until must be text"),
    ],
)
def test_a_wrong_request_ends_at_once_with_the_reason_in_its_note_and_lands_nothing(
    asked: Shop, conf: dict[str, Any], why: str
) -> None:
    notes: dict[str, str] = {}
    with pytest.raises(RequestRefused, match=why.replace("'", ".")):
        trigger(notes, conf)
    assert why in notes["run_note"]
    assert asked.applied == H1 and not (asked.lake.landing / "orders" / f"{H2}.json").exists()


def test_blanks_around_an_hour_are_no_mistake(asked: Shop) -> None:
    assert trigger({}, {"hour": f"  {H2} "}) == H2


def test_tables_without_an_hour_are_computed_again_at_the_published_hour_and_published(asked: Shop) -> None:
    left: dict[str, str] = {}
    before = releases.require_release(asked.lake, None)
    assert trigger(left, {"select": "silver_orders"}) == H1
    assert left["select"] == "silver_orders, gold_orders"
    assert asked.applied == H1, "no further hour was landed"
    operations.refresh_onward(Run(asked.settings, H1, "a_run", select=left["select"]), asked.driver())
    after = releases.require_release(asked.lake, None)
    assert (after.release_id, after.hour) == (before.release_id + 1, H1)


def test_text_that_is_no_hour_gets_into_no_row_of_the_event_log(asked: Shop, caplog: pytest.LogCaptureFixture) -> None:
    run = SimpleNamespace(run_id="a_run", run_type="manual", data_interval_start=None, conf={})
    params = {"hour": "../../x", "strategy": "full"}
    with pytest.raises(UsageError):
        requested_hour(params, run)
    ti = SimpleNamespace(try_number=1, xcom_pull=lambda **_: None)
    record_failure(
        {"ti": ti, "run_id": "a_run", "params": params, "dag_run": run},
        step="apply",
        layer="bronze",
        root=str(SHOP.root),
    )
    assert not event_log.read(asked.lake, run_id="a_run")
