"""What every subcommand of iobench has in common."""

import pytest


@pytest.mark.parametrize("subcommand", ["gen", "verify", "run"])
def test_help_shows_the_options(iobench, subcommand):
    help_text = iobench(subcommand, "--help").out
    assert subcommand in help_text
    assert "--" in help_text


def test_an_unknown_subcommand_is_wrong_usage(iobench):
    assert iobench("measure", expect=2).err
