"""Commands whose help shows options in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUPS = {
    "What to move": "chunks region regions regions_file shape from_ to consume",
    "Target": "format format_version codec shards dtype casting order fill_value write_empty axes "
    "spacing unit overwrite",
    "Memory and speed": "memory workers max_rate processes part parts scheduler strategy objective "
    "device",
    "Safety": "verify sidecar durability check",
    "Source": "source source_shape source_dtype source_chunks source_order source_format "
    "source_offset strict",
    "Output": "dry_run explain progress log verbose as_json quiet debug help",
}
_OTHERS = "Options"
COMMAND_GROUPS = {
    "Look first": "info plan suggest",
    "Move an array": "resplit split merge extract",
    "Afterwards": "verify repair resume finish",
    "Others": "demo completion",
}
"""The commands in the groups of the help, in the order of use."""


class GroupedCommand(click.Command):
    """A command whose help shows options in groups; those of no group come first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options."""
        for title, params in self._groups(ctx):
            found = (param.get_help_record(ctx) for param in params)
            records = [record for record in found if record is not None]

            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def _groups(self, ctx: click.Context) -> Iterator[tuple[str, list[click.Option]]]:
        every = (each for each in self.get_params(ctx) if isinstance(each, click.Option))
        params = {each.name or "": each for each in every}
        groups = {title: names.split() for title, names in _GROUPS.items()}
        grouped = {name for names in groups.values() for name in names}
        yield _OTHERS, [param for name, param in params.items() if name not in grouped]
        for title, names in groups.items():
            yield title, [params[name] for name in names if name in params]
