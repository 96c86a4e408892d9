"""Raw files of public data sets: from a folder that is never written to, or by PyG's download into the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Iterator

from torch_geometric.data import Data

from kdlgt.data.cache import FORMAT, as_fields, as_graph, cache_dir, cached, digest
from kdlgt.errors import DataError

Make = Callable[[pathlib.Path], list[Data]]


def data_root(root: str | pathlib.Path | None) -> pathlib.Path | None:
    """The folder of data sets: the given one, else ``$KDLGT_DATA``, else ``None``."""
    if root is not None:
        return pathlib.Path(root)
    given = os.environ.get("KDLGT_DATA")
    return pathlib.Path(given) if given else None


def source_folder(root: pathlib.Path | None, folder: str) -> pathlib.Path | None:
    """The data set's folder under the root or among earlier downloads; ``None`` when it is nowhere."""
    roots = (data_root(root), cache_dir() / "data")
    return next((place / folder for place in roots if place is not None and _has_raw(place / folder)), None)


def parsed(root: pathlib.Path | None, folder: str, make: Make) -> list[Data]:
    """The graphs of a data set that PyG parses, by way of the cache.

    PyG writes ``processed/`` beside ``raw/``; so the raw files are linked into a temporary folder, parsed there, and
    the result is kept in the cache, keyed by the content of the files.

    Args:
        root: folder of data sets, or ``None`` for ``$KDLGT_DATA``.
        folder: the data set's folder in it.
        make: parses (or downloads) the data set in a given parent folder.

    Raises:
        DataError: the files are neither there nor to be had, or cannot be parsed.
    """
    source = source_folder(root, folder)
    if source is None:
        return downloaded(root, folder, lambda place: make(place.parent))
    key = digest([FORMAT, folder, *_contents(source / "raw")])
    return [as_graph(fields) for fields in cached("parsed", key, lambda: [as_fields(g) for g in _parse(source, make)])]


def downloaded(root: pathlib.Path | None, folder: str, fetch: Callable[[pathlib.Path], list[Data]]) -> list[Data]:
    """Let ``fetch`` download into ``<cache>/data/<folder>`` and return the graphs.

    Raises:
        DataError: the download failed.
    """
    place = cache_dir() / "data" / folder
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with quiet_warnings():
            return fetch(place)
    except Exception as error:
        # PyG downloads through several libraries, each with errors of its own.
        looked = data_root(root)
        where = f"not in {looked}" if looked else "without a data folder (--data-root or KDLGT_DATA)"
        raise DataError(
            f"{folder} is {where}, and its download failed: {type(error).__name__}: {error}. Put its raw files into "
            f"<data root>/{folder}, or try again with a network connection"
        ) from error


@contextlib.contextmanager
def quiet_warnings() -> Iterator[None]:
    """Silence deprecations that old pickles and PyG's readers cause; they are not the user's to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", message=".*align should be passed as Python or NumPy boolean.*")
        yield


def _has_raw(folder: pathlib.Path) -> bool:
    raw = folder / "raw"
    return any(raw.iterdir()) if raw.is_dir() else any(folder.glob("*.csv"))


def _contents(raw: pathlib.Path) -> Iterator[str]:
    for path in sorted(raw.iterdir()):
        with path.open("rb") as file:
            yield f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _parse(source: pathlib.Path, make: Make) -> list[Data]:
    with tempfile.TemporaryDirectory() as temporary:
        raw = pathlib.Path(temporary) / source.name / "raw"
        raw.mkdir(parents=True)
        for path in sorted((source / "raw").iterdir()):
            (raw / path.name).symlink_to(path.resolve())
        try:
            # PyG reports each processing step on stderr, which would tear our own progress bar.
            with quiet_warnings(), contextlib.redirect_stderr(io.StringIO()):
                return make(pathlib.Path(temporary))
        except Exception as error:
            # Whatever a parser stumbles over, the person needs to know which files.
            raise DataError(
                f"the raw files in {source / 'raw'} cannot be read: {type(error).__name__}: {error}. Compare them with "
                "the published ones, or remove the folder to download them"
            ) from error
