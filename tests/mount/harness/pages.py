"""The commands that README.md, bench/README.md and the manual print."""

import re

from .daemon import REPOSITORY

PAGES = [REPOSITORY / "README.md", REPOSITORY / "bench/README.md", *sorted(REPOSITORY.glob("man/*.[1-8]"))]


def name_of(page):
    return str(page.relative_to(REPOSITORY))


def _text_of(page):
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return text
    return re.sub(r"\\f[BIRP]", "", text.replace("\\-", "-").replace("\\(dq", '"').replace("\\e", "\\"))


def blocks(page):
    """What is shown as it is, block by block: lists of lines without comments, a line that goes on being one."""
    begin, end = (r"^```(?:sh|bash)?\n", r"^```") if page.suffix == ".md" else (r"^\.nf\n", r"^\.fi")
    found = re.findall(f"{begin}(.*?){end}", _without_other_languages(_text_of(page)), re.M | re.S)
    lines = [[re.sub(r"(^|\s+)#(\s.*)?$", "", line).strip() for line in block.replace("\\\n", " ").splitlines()
              if page.suffix == ".md" or not line.startswith(".")] for block in found]
    return [[line for line in block if line] for block in lines]


def _without_other_languages(text):
    return re.sub(r"^```(?!sh$|bash$)\w+\n.*?^```", "", text, flags=re.M | re.S)


def in_running_text(page):
    """Code spans, and requests of the manual in bold that name a program and what follows it."""
    text = _text_of(page)
    if page.suffix == ".md":
        outside = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.M | re.S)
        spans = re.findall(r"`((?:tierfs(?:-stage)?|iobench|mount -t fuse\.tierfs) [^`]+)`", outside)
        return [re.sub(r"\s+", " ", span) for span in spans]
    return [line.strip() for line in
            re.findall(r'^\.(?:B|BR|BI) "?((?:tierfs(?:-stage)?|iobench) [a-z-]+[^"\n]*)', text, re.M)]
