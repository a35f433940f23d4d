"""Times the batches of a user's data loader. iobench contains this text and starts it; it writes a JSON object a line.

The command line has one argument, a JSON object:
    file, function      the user's: function(path, num_workers) returns an iterable of batches
    path, reference     the directory of the first pass, and of the second one (empty: the same)
    workers, batches, warmup, pause_s, seed
    results, go         file descriptors: where the lines go; one byte comes when the first pass may begin
Lines: {"phase": TEXT} when it begins something; {"phase": "ready"} before it waits for `go`;
{"waits_s": [...], "seconds": N} after each pass; {"error": TEXT} and the end.
SIGUSR2 writes the stacks of all threads to standard error.
"""

import faulthandler
import gc
import importlib.util
import inspect
import json
import os
import random
import signal
import sys
import time
import traceback


class Wrong(Exception):
    """What the user did wrong; the text is for them, a stack would not help."""


class Results:
    """The lines for iobench. Whatever the user's code prints goes elsewhere."""

    def __init__(self, descriptor):
        self.file = os.fdopen(descriptor, "wb")

    def tell(self, **what):
        self.file.write(json.dumps(what).encode() + b"\n")
        self.file.flush()


def users_function(path, name):
    """Imported as a module of its own name, so that workers that are spawned, not forked, find its classes too."""
    sys.dont_write_bytecode = True  # nothing is left beside the user's file
    sys.path[0:1] = [os.path.dirname(os.path.abspath(path))]
    stem = os.path.splitext(os.path.basename(path))[0]
    if not stem.isidentifier() or stem in sys.modules:
        stem = "iobench_users_loader"
    spec = importlib.util.spec_from_file_location(stem, path)
    if spec is None or not os.path.isfile(path):
        raise Wrong(f"{path} is not a Python file: --loader FILE.py:function")
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise Wrong(f"{path} cannot be imported by {sys.executable}: {error} (--python names another interpreter)") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise Wrong(f"{path} has no function {name}")
    return function


def call(function, name, path, workers):
    """function(path, num_workers) under whatever names, or one that has a parameter num_workers and needs no path."""
    parameters = inspect.signature(function).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    by_name = takes_all or any(key == "num_workers" and one.kind is not one.POSITIONAL_ONLY
                               for key, one in parameters.items())
    needed = [key for key, one in parameters.items() if one.default is one.empty
              and not (by_name and key == "num_workers")
              and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    if by_name:
        if len(needed) <= 1:
            key = needed[0] if needed else "path"
            if needed and parameters[key].kind is parameters[key].POSITIONAL_ONLY:
                return function(path, num_workers=workers)
            given = {key: path} if needed or key in parameters or takes_all else {}
            return function(**given, num_workers=workers)
    elif len(needed) == 2 and all(parameters[key].kind is not parameters[key].KEYWORD_ONLY for key in needed):
        return function(path, workers)
    raise Wrong(f"{name}{inspect.signature(function)} cannot be called as {name}(path, num_workers)")


def make_loader(function, told, path, workers):
    name = told["function"]
    loader = call(function, name, path, workers)
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise Wrong(f"{name} returned {type(loader).__name__}, not an iterable of batches")
    has = getattr(loader, "num_workers", workers)
    if has != workers:
        raise Wrong(f"{name} was asked for num_workers={workers} and returned a loader with {has}")
    return loader


def sow(seed):
    """The same samples in each pass, for loaders that draw them from the global generators."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed % 2**63)


def take(loader, batches, pause_s, name):
    """Seconds that each batch was waited for, and of the whole. The first wait begins before the workers start."""
    waits = []
    begun = before = time.perf_counter()
    batch, iterator = None, iter(loader)
    for number in range(batches):
        try:
            batch = next(iterator)
        except StopIteration:
            raise Wrong(f"{name} gave {number} batches, {batches} were asked for: give fewer --batches, or a larger "
                        "dataset") from None
        waits.append(time.perf_counter() - before)
        if pause_s:
            time.sleep(pause_s)  # the batch is held meanwhile, as a trainer does
        before = time.perf_counter()
    del batch
    return waits, before - begun


def warm_up(function, told):
    """What Python imports or compiles on the way is no cost of the storage. Without workers: those that are forked later
    have it already. Another seed: the samples of the passes stay cold."""
    sow(told["seed"] + 1)
    iterator = iter(make_loader(function, told, told["path"], 0))
    for _ in range(told["warmup"]):
        next(iterator, None)


def run(told, results):
    results.tell(phase="importing " + told["file"])
    function = users_function(told["file"], told["function"])
    results.tell(phase="warming up")
    warm_up(function, told)
    gc.collect()
    for first in (True, False):
        results.tell(phase="making the loader")
        sow(told["seed"])
        loader = make_loader(function, told, told["path"] if first else told["reference"] or told["path"], told["workers"])
        if first:
            results.tell(phase="ready")
            os.read(told["go"], 1)
        results.tell(phase="the first pass" if first else "the second pass")
        waits, seconds = take(loader, told["batches"], told["pause_s"], told["function"])
        results.tell(waits_s=waits, seconds=seconds)
        loader = None
        gc.collect()  # its workers end here, not beside the next pass


def main():
    told = json.loads(sys.argv[1])
    results = Results(told["results"])
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    try:
        run(told, results)
    except Wrong as error:
        results.tell(error=str(error))
    except BaseException:  # the user's sys.exit() too
        results.tell(error=traceback.format_exc()[-4000:].strip())
    sys.stderr.flush()
    os._exit(0)  # threads of the user's that still run do not keep us


main()
