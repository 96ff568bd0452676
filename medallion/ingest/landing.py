"""Landing: copy an hour's change files from the source, and decode them into typed changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from medallion.errors import MedallionError, advice
from medallion.ingest import quarantine
from medallion.ingest.decode import Decoded, decode_file
from medallion.ingest.delta_source import require_all_commits
from medallion.ingest.erased_lines import ErasedLines, without_erased
from medallion.ingest.hour_files import decoded_file, landed_file
from medallion.ingest.landed_before import landed_before
from medallion.ingest.ledger import Manifest, known_manifest, manifests_before, write_manifest
from medallion.ingest.listing import Listing
from medallion.ingest.partial_updates import complete_updates
from medallion.ingest.parts import Parts
from medallion.ingest.put_together import Reading, is_plain, land_beside, land_files, same_files
from medallion.ingest.refused_file import refused_file
from medallion.ingest.source import Landed, Source, copy_file
from medallion.ingest.sources import columns_in_hours, reader_of
from medallion.ingest.tabular_files import ANY
from medallion.ingest.withdrawn_parts import is_as_landed, parts_to_keep
from medallion.model.delivery import DELTA
from medallion.model.table import Feed
from medallion.storage import fence, files
from medallion.storage.files import Place
from medallion.storage.lake import Lake


class NotAsLanded(MedallionError):
    """A landed file is missing, or differs from its manifest."""


_SHOWN_COLUMNS = 20  # most undeclared columns that warnings name


@dataclass(frozen=True)
class ToLand:
    """The files of an hour that are to land.

    names: topic -> names of its files at the source, in order. feeds: the feeds of the topics; if an hour of a feed has
    one file, it replaces the former one. forget: removes lines about erased persons from landed files.
    """

    names: Mapping[str, Sequence[str]]
    feeds: Sequence[Feed] = ()
    forget: ErasedLines | None = None


def copy_change_files(
    source: Source, lake: Lake, hour: str, to_land: ToLand, former: Manifest | None = None
) -> Manifest:
    """Copy an hour's change files to the landing folder, one file for each feed, each whole or not at all.

    A file that landed before stays part of the hour even if the source no longer lists it.

    Args:
        source: Where the files come from.
        lake: The lake with the landing folder.
        hour: The hour.
        to_land: Its files at the source.
        former: The manifest of what landed for the hour before.

    Returns:
        The new manifest, which is written last.

    Raises:
        MedallionError: A file does not arrive whole or cannot be read, or a file that landed and that the source no
            longer lists would be lost.
    """
    fence.require()  # a machine that is no longer the writer must not overwrite a file with an older one
    names, feeds = to_land.names, to_land.feeds
    known = former.files if former else {}
    retained = {
        topic: file for topic, file in known.items() if topic not in names and is_landed(lake, topic, hour, file)
    }
    # Checked for all feeds before any file is copied: an incomplete hour lands nothing.
    several = {feed.topic for feed in feeds if feed.delivery.has_several_files}
    columns = {feed.topic: columns_in_hours(feed) for feed in feeds}
    old_parts = {
        topic: parts_to_keep(lake, topic, hour, known.get(topic), names[topic]) for topic in names if topic in several
    }
    copied: dict[str, Landed] = {}
    for topic in to_land.forget.owners_first(names) if to_land.forget is not None else names:
        own = names[topic]
        place = landed_file(lake, topic, hour)
        is_copied = len(own) == 1 and is_plain(own[0]) and not old_parts.get(topic)
        forget = partial(to_land.forget.in_file, topic) if to_land.forget is not None else None
        reading = Reading(columns.get(topic, ANY), forget)
        if old_parts.get(topic):
            copied[topic] = land_beside(source, own, place, known[topic], old_parts[topic], reading)
        elif topic not in several and is_copied:  # the layout gives its name, so parts need not record it
            copied[topic] = copy_file(source, own[0], place)
        else:
            copied[topic] = land_files(source, own, place, reading)
        if to_land.forget is not None and is_copied:  # files that are put together have been cleaned before that
            copied[topic] = to_land.forget.in_landed(topic, place, copied[topic], own)
    manifest = Manifest(hour, source.root, copied | retained)
    write_manifest(lake, manifest)
    return manifest


def require_all_commits_landed(lake: Lake, feed: Feed, hour: str, listing: Listing) -> None:
    """Raise MedallionError if commits of the Delta table that feeds ``feed`` were removed before they landed."""
    names = listing.hours.get(hour, {}).get(feed.topic, ())
    if feed.delivery.format != DELTA or not names:
        return
    landed = (manifest.files[feed.topic].parts for manifest in manifests_before(lake, hour, feed.topic))
    former = next((parts[-1].name for parts in landed if parts), None)
    require_all_commits(feed, names, listing.files, former)


def is_landed(lake: Lake, topic: str, hour: str, file: Landed) -> bool:
    """Check whether the landing folder has the file of ``topic`` and ``hour`` with the size of ``file``."""
    try:
        return landed_file(lake, topic, hour).stat().st_size == file.bytes
    except FileNotFoundError:
        return False


def require_as_landed(lake: Lake, topic: str, hour: str, file: Landed) -> None:
    """Raise NotAsLanded unless the landed file has the size and checksum in its manifest."""
    if not is_as_landed(lake, topic, hour, file):
        raise NotAsLanded(
            f"{landed_file(lake, topic, hour)} is not as it landed: its checksum differs, or it is missing; nothing of"
            f" hour {hour} was applied now: {advice.land_again(hour)}"
        )


def changed_files(source: Source, names: Mapping[str, Sequence[str]], landed: Manifest | None) -> list[str]:
    """Return the topics whose files at the source (topic -> names) differ from what landed."""
    known = landed.files if landed else {}
    return [topic for topic, own in names.items() if topic in known and not same_files(source, own, known[topic])]


def decode_hour(lake: Lake, feeds: tuple[Feed, ...], hour: str, max_bad_lines: float) -> dict[str, Decoded]:
    """Decode the landed files of ``hour`` into typed changes, by table, for feeds that have a file.

    Raises MedallionError before anything is written to a table, if a landed file is missing, has changed, is cut off,
    is no change file, or has a larger share of bad lines than ``max_bad_lines``.
    """
    manifest = known_manifest(lake, hour)
    decoded: dict[str, Decoded] = {}
    for feed in feeds:
        if feed.topic not in manifest.files:
            continue
        path, landed = landed_file(lake, feed.topic, hour), manifest.files[feed.topic]
        require_as_landed(lake, feed.topic, hour, landed)
        lines = without_erased(lake, feed, hour, quarantine.read_corrections(lake, feed, hour, landed))
        parts = Parts(landed.parts, landed_before(lake, feed, hour, landed.parts))
        result = decode_file(path, feed, hour, decoded_file(lake, feed, hour), lines, parts)
        complete_updates(lake, feed, hour, result, lines)
        require_few_bad_lines(feed, hour, path, result, max_bad_lines)
        decoded[feed.name] = result
    return decoded


def require_few_bad_lines(feed: Feed, hour: str, path: Place, content: Decoded, max_bad_lines: float) -> None:
    """Raise MedallionError if too many lines are rejected, or if no line of a file is a record of the format.

    One bad line beside good ones is allowed however small the file is, and one bad record may be all that the hour has.
    """
    if not content.rejected:
        return
    line, reason, raw = content.recordless or content.rejected[0]
    if content.recordless or not content.records:
        expected = f"format {feed.delivery.format} has {reader_of(feed).expected}"
        where = f" of {content.parts.locate(line)[0].name}" if content.recordless else ""
        what = f"has no line{where} that is a record: line {line} is {reason}; {expected}"
        raise refused_file(feed, hour, path, what, (line, raw.encode("utf-8", "surrogatepass")))
    least = 1 if max_bad_lines and content.changes else 0
    if len(content.rejected) > max(least, max_bad_lines * content.lines):
        raise MedallionError.quoting(
            f"{path}: {len(content.rejected)} of {content.lines} lines are bad, more than the {max_bad_lines:.1%} of"
            f" MEDALLION_MAX_BAD_LINES; nothing of hour {hour} was applied: have {feed.topic} of it corrected, then run"
            " the hour again",
            f"; the first is {content.parts.place(line) if content.parts else f'line {line}'}: {reason}",
        )


def drift(feeds: Iterable[Feed], decoded: Mapping[str, Decoded]) -> list[str]:
    """Return warnings about an hour's files: columns that differ from the declared ones, and notes of decoding."""
    warnings = []
    for feed in feeds:
        content = decoded.get(feed.name, Decoded())
        shown = sorted(content.unknown.items())[:_SHOWN_COLUMNS]
        warnings += [
            f"{feed.topic} has a column {name} (in lines: {count:,}), which is not loaded: declare it in"
            f" spark_jobs/{feed.layer}/{feed.topic}.py and restate the hour to load it"
            for name, count in shown
        ]
        if more := len(content.unknown) - len(shown):
            least = " or more" if content.more_unknown else ""
            warnings.append(f"{feed.topic} has {more:,}{least} more columns that are not declared")
        warnings += [f"{feed.topic} has no column {name} any more: it is null in these rows" for name in content.absent]
        warnings += [f"{feed.topic}: {note}" for note in content.notes]
    return warnings


def forget_decoded(lake: Lake, hour: str) -> None:
    """Remove the decoded files of an hour; the landed ones stay."""
    files.remove_tree(lake.decoded / hour)
