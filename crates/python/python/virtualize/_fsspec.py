"""Files of fsspec as a store that the compiled module reads."""

from datetime import UTC, datetime
from typing import Any


class FsspecStore:
    """A file system of fsspec, with the methods ``get_range`` and ``head`` of obspec."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def __repr__(self) -> str:
        return f"FsspecStore({self._files!r})"

    def resolve(self, url: str, /) -> tuple["FsspecStore", str]:
        """Return the store and the path of a url, as a registry does."""
        return self, url

    def get_range(self, path: str, *, start: int, end: int) -> bytes:
        """Return bytes of a file."""
        data: bytes = self._files.cat_file(self._files._strip_protocol(path), start=start, end=end)
        return data

    def head(self, path: str) -> dict[str, Any]:
        """Return size, entity tag and modification time of a file."""
        path = self._files._strip_protocol(path)
        # Listings that the file system has cached say nothing about the present.
        self._files.invalidate_cache(self._files._parent(path))
        info = self._files.info(path)
        return {
            "size": info["size"],
            "e_tag": info.get("ETag") or info.get("etag"),
            "last_modified": self._modified(path, info),
        }

    def _modified(self, path: str, info: dict[str, Any]) -> datetime | None:
        """Return the modification time of a file, if the file system knows it."""
        for name in ("LastModified", "last_modified", "mtime", "last_write_time", "modify"):
            modified = info.get(name)
            if isinstance(modified, datetime):
                return modified
            if isinstance(modified, int | float):
                return datetime.fromtimestamp(modified, UTC)
        try:
            modified = self._files.modified(path)
        except (NotImplementedError, KeyError, TypeError):
            return None
        return modified if isinstance(modified, datetime) else None
