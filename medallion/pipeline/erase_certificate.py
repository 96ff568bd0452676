"""The certificate of an erasure, as JSON and as a page: what was removed, and what it cannot reach. It names nobody."""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from medallion.html import templating
from medallion.ingest.erased_subjects import PERSON, Registered
from medallion.pipeline.erase_history import Removed
from medallion.pipeline.erase_plan import Plan
from medallion.storage import files
from medallion.storage.files import Place, in_bucket
from medallion.storage.lake import Lake


@dataclass
class Erased:
    """What an erasure has done.

    rows: erased rows, by table of Bronze. tables: the tables whose history was removed. releases: the dropped releases.
    holds: the names under which some of them were held. lines: lines deleted from quarantine. events: events whose
    details were removed. files: other files that were rewritten or removed, such as landed files, corrections and
    reports. removed: removed files of tables. left: paths of files in the lake that still have a person. release_id:
    the release that readers have now.
    """

    rows: dict[str, int] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    lines: int = 0
    events: int = 0
    files: list[str] = field(default_factory=list)
    removed: Removed = field(default_factory=Removed)
    left: list[str] = field(default_factory=list)
    release_id: int | None = None


def write_certificate(lake: Lake, plan: Plan, done: Erased, source: str) -> Place:
    """Write the certificate, which replaces that of an attempt that was cut short; return its page."""
    known = Registered(lake).read()
    content = {
        "erasure": plan.erasure_id,
        "began_at": plan.began_at,
        "ended_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "digests": [known.digest(PERSON, subject) for subject in plan.subjects],
        **asdict(done),
        "outside": [*_outside(lake, source)],
    }
    page = lake.at(lake.root, "reports", "erasures", f"{plan.erasure_id}.html")
    files.write_json(page.with_suffix(".json"), content)
    files.write_text(page, templating.render("erasure.html", title=f"Erasure {plan.erasure_id}", **_shown(content)))
    return page


def _shown(content: dict[str, Any]) -> dict[str, Any]:
    removed = content["removed"]
    facts = [
        ("Began", content["began_at"]),
        ("Ended", content["ended_at"]),
        ("Persons", len(content["digests"])),
        ("Rows of Bronze", ", ".join(f"{count:,} of {table}" for table, count in content["rows"].items()) or "none"),
        ("Tables whose history ended", ", ".join(content["tables"]) or "none"),
        ("Releases dropped", ", ".join(map(str, content["releases"])) or "none"),
        ("Holds ended with them", ", ".join(content["holds"]) or "none"),
        ("Files of tables removed", f"{removed['files']:,}, {removed['bytes'] / 1e6:,.1f} MB"),
        ("Other files rewritten or removed", f"{len(content['files']):,}"),
        ("Lines in quarantine deleted", f"{content['lines']:,}"),
        ("Events without their details", f"{content['events']:,}"),
    ]
    return {"facts": facts, "left": content["left"], "outside": content["outside"], "digests": content["digests"]}


def _outside(lake: Lake, source: str) -> list[str]:
    """Return what no erasure of a lake can reach."""
    outside = [
        f"the source's own files, in {source}",
        "copies of the lake and of its tables, backups, and files of views that medallion catalog wrote elsewhere:"
        " write those again",
        "the scheduler's logs and database, and what was sent to other systems",
    ]
    if in_bucket(lake.root):
        outside.append(
            "versions that the bucket keeps of removed objects, and objects under a retention lock: remove them by its"
            " own rules"
        )
    return outside
