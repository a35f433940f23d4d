"""The command line of bench/gds-read."""

import argparse
import json
import os
import re
import sys

from . import cufile, direct, tree

HELP = """First everything is read by O_DIRECT in aligned blocks: that works anywhere, and is what the device gives. Then, where a
GPU is, the same through cuFile into its memory, with what cuFile's own statistics say of the way: by PCI P2PDMA, by
nvidia-fs, or through the processor's memory (compatibility mode). Throughput alone proves nothing.

Paths should lie on a file system with direct I/O; links are not followed, and .tierfs-stage is left out.
Exit status: 0 read, 1 not (or not directly, with --direct), 2 wrong usage."""


def size(text):
    match = re.fullmatch(r"(\d+)([KM]?)", text)
    value = int(match.group(1)) << {"": 0, "K": 10, "M": 20}[match.group(2)] if match else 0
    if not 4096 <= value <= 16 << 20 or value % 4096:
        raise argparse.ArgumentTypeError(f"{text}: give a multiple of 4K up to 16M")
    return value


def threads(text):
    if not text.isdigit() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text}: give 1 to 256")
    return int(text)


def parse(words):
    parser = argparse.ArgumentParser(prog="gds-read", description=__doc__, epilog=HELP,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folders or files")
    parser.add_argument("--block", type=size, default=4 << 20, metavar="SIZE", help="bytes a read (default 4M, at most 16M)")
    parser.add_argument("--threads", type=threads, default=8, metavar="N", help="that read at once (default 8)")
    parser.add_argument("--verify", action="store_true",
                        help="compare what arrived in the GPU with what O_DIRECT read, by CRC-32 (slower)")
    parser.add_argument("--no-cufile", action="store_true", help="read by O_DIRECT only")
    parser.add_argument("--direct", action="store_true", help="fail unless every read of cuFile was direct")
    parser.add_argument("--gpu", type=int, default=0, metavar="N", help="which GPU (default 0)")
    parser.add_argument("--libcufile", metavar="FILE", help="the library, where it is not found by itself")
    parser.add_argument("--json", action="store_true", help="figures as JSON on standard output")
    return parser.parse_args(words)


def complain(text):
    print(f"gds-read: {text}", file=sys.stderr)
    return 1


def through_cufile(files, options, sums, say):
    """Figures of cuFile, and the exit status."""
    try:
        answer = cufile.read_all(files, options)
    except cufile.Unavailable as reason:
        say(f"cuFile: not tried: {reason}")
        status = complain("--direct: cuFile was not tried") if options.direct else 0
        return {"tried": False, "reason": str(reason)}, status
    rate = direct.Rate(len(files), sum(file.size for file in files), answer["seconds"])
    words, all_direct = cufile.path_of(answer["reads"])
    say(f"cuFile {answer['version'] or ''} into {answer['gpu']}: {rate.text()}".replace("  ", " "))
    say(f"cuFile's statistics: {words}")
    if answer["nvidia_fs_reads"] == 0 and (answer["reads"] or {}).get("nvidia-fs", 0) == 0:
        say("nvidia-fs: its own count of reads did not move")
    say({True: "The path was direct.", False: "The path was not direct: compatibility mode.",
         None: "Which path was taken is not known."}[all_direct])
    status = 0
    if options.verify:
        wrong = [piece for piece in answer["sums"] if sums.get((piece[0], piece[1])) != piece[2]]
        if wrong or len(answer["sums"]) != len(sums):
            status = complain(f"{wrong[0][0] if wrong else 'some file'}: other bytes arrived in the GPU")
        else:
            say("What arrived in the GPU is what O_DIRECT read.")
    if options.direct and not all_direct:
        status = complain("--direct: not every read was direct, or it is not known")
    return {"tried": True, "gpu": answer["gpu"], "version": answer["version"], "library": answer["library"],
            "configuration": answer["configuration"], **rate.figures(), "reads": answer["reads"],
            "nvidia_fs_reads": answer["nvidia_fs_reads"], "direct": all_direct}, status


def main(words=None):
    options = parse(words)
    say = (lambda text: None) if options.json else print
    # Names may hold any byte; what is printed must not fail for one.
    sys.stdout.reconfigure(errors="replace")
    sys.stderr.reconfigure(errors="replace")
    try:
        files = tree.find([os.path.abspath(path) for path in options.paths])
        if not files:
            return complain("there is no regular file in these paths")
        sums = {} if options.verify else None
        rate = direct.read_all(files, options.threads, options.block, sums)
        say(f"O_DIRECT, {options.threads} threads, blocks of {options.block >> 10} KiB: {rate.text()}")
        figures, status = {"o_direct": rate.figures(), "cufile": {"tried": False, "reason": "--no-cufile"}}, 0
        if not options.no_cufile:
            figures["cufile"], status = through_cufile(files, options, sums, say)
        if options.json:
            print(json.dumps({"tool": "gds-read", "block": options.block, "threads": options.threads, **figures},
                             indent=2))
        return status
    except OSError as error:
        return complain(error)
    except KeyboardInterrupt:
        return 130
