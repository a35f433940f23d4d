"""Each rule over made-up trees: one that keeps it, and some that do not."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import files
import folders
import headers
import types_twice
from tree import Tree

A_HEADER = "// A thing.\n#pragma once\n"


def lines(violations):
    """FILE:LINE of each."""
    return sorted(f"{violation.file}:{violation.line}" for violation in violations)


class Floors(unittest.TestCase):
    def check(self, *violations, **texts):
        tree = Tree({name.replace("__", "/") + ".hpp": text for name, text in texts.items()})
        self.assertEqual(sorted(violations), lines(folders.floors(tree)))

    def test_below_and_beside_are_allowed(self):
        self.check(config__a="", backends__dir__b='#include "config/a.hpp"\n',
                   fs__c='#include "backends/dir/b.hpp"\n#include <map>\n',
                   bench__iobench__d='#include "config/a.hpp"\n', tests__unit__e='#include "fs/c.hpp"\n')

    def test_above_is_not(self):
        self.check("config/a.hpp:1", config__a='#include "tiering/b.hpp"\n', tiering__b="")

    def test_a_floor_does_not_include_the_tests_or_the_instruments(self):
        self.check("fs/a.hpp:2", "fs/a.hpp:3", fs__a='\n#include "tests/b.hpp"\n#include "bench/iobench/c.hpp"\n', tests__b="",
                   bench__iobench__c="")

    def test_the_measuring_instrument_stands_on_config_alone(self):
        self.check("bench/iobench/a.hpp:1", bench__iobench__a='#include "backends/b.hpp"\n', backends__b="")

    def test_paths_begin_at_the_top(self):
        self.check("fs/a.hpp:1", fs__a='#include "b.hpp"\n', fs__b="")


class Circles(unittest.TestCase):
    def check(self, texts, violations, excepted=()):
        self.assertEqual(sorted(violations), lines(folders.circles(Tree(texts), set(excepted))))

    def test_a_folder_may_use_another(self):
        self.check({"fs/a/a.hpp": '#include "fs/b/b.hpp"\n', "fs/b/b.hpp": '#include "fs/b/c.hpp"\n', "fs/b/c.hpp": ""}, [])

    def test_two_that_use_each_other(self):
        self.check({"fs/a/a.hpp": '#include "fs/b/b.hpp"\n', "fs/b/b.hpp": "", "fs/b/b.cpp": '\n#include "fs/a/c.hpp"\n',
                    "fs/a/c.hpp": ""}, ["fs/a/a.hpp:1", "fs/b/b.cpp:2"])

    def test_a_circle_of_three_and_who_only_uses_it(self):
        self.check({"fs/a/a.hpp": '#include "fs/b/b.hpp"\n', "fs/b/b.hpp": '#include "fs/c/c.hpp"\n',
                    "fs/c/c.hpp": '#include "fs/a/a.hpp"\n', "fs/d/d.hpp": '#include "fs/a/a.hpp"\n'},
                   ["fs/a/a.hpp:1", "fs/b/b.hpp:1", "fs/c/c.hpp:1"])

    def test_what_the_floors_forbid_is_reported_there_alone(self):
        self.check({"config/a.hpp": '#include "fs/b.hpp"\n', "fs/b.hpp": '#include "config/a.hpp"\n'}, [])

    def test_an_exception_holds_until_nothing_needs_it(self):
        texts = {"fs/a/a.hpp": '#include "fs/b/b.hpp"\n', "fs/b/b.hpp": '#include "fs/a/c.hpp"\n', "fs/a/c.hpp": ""}
        back = ("fs/b/b.hpp", "fs/a/c.hpp")
        self.check(texts, [], [back])
        self.check({**texts, "fs/b/b.hpp": ""}, ["tests/house/exceptions.py:1"], [back])


class Internal(unittest.TestCase):
    def check(self, comment, violations, **users):
        texts = {"fs/a/inner.hpp": comment + "#pragma once\n", "fs/b/b.hpp": "", "fs/c/c.hpp": ""}
        texts |= {name.replace("__", "/") + ".cpp": '#include "fs/a/inner.hpp"\n' for name in users}
        self.assertEqual(sorted(violations), lines(headers.internal(Tree(texts))))

    def test_its_folder_and_its_tests_may(self):
        self.check("// A part. Internal to fs/a.\n", [], fs__a__user=1, tests__unit__fs__a__a_test=1, tests__fuzz__a_fuzzer=1)

    def test_others_may_not(self):
        self.check("// A part. Internal to fs/a.\n", ["fs/b/user.cpp:1", "tests/unit/fs/b/b_test.cpp:1"], fs__b__user=1,
                   tests__unit__fs__b__b_test=1)

    def test_two_folders_over_two_lines(self):
        self.check("// A part. Internal to\n// fs/a and fs/b; for one thread.\n", ["fs/c/user.cpp:1"],
                   fs__a__user=1, fs__b__user=1, fs__c__user=1)

    def test_of_another_folder_its_own_source_may(self):
        self.check("// A part. Internal to fs/b.\n", ["fs/a/other.cpp:1"], fs__a__inner=1, fs__b__user=1, fs__a__other=1)

    def test_a_folder_that_does_not_exist(self):
        self.check("// A part. Internal to fs/gone.\n", ["fs/a/inner.hpp:1"])

    def test_other_words_for_it(self):
        for words in ("Only fs/a may include it.", "fs/a only.", "Internal to fs/a/ and its tests.", "Internal to `tierfs pack`.",
                      "Only fs/a includes it.", "Used by fs/a alone.", "For fs/a.cpp and its tests."):
            with self.subTest(words):
                tree = Tree({"fs/a/inner.hpp": f"// A part. {words}\n"})
                self.assertEqual(["fs/a/inner.hpp:1"], lines(headers.internal(tree))[:1])


class Heavy(unittest.TestCase):
    def check(self, texts, violations, excepted=()):
        self.assertEqual(sorted(violations), lines(headers.heavy(Tree(texts), set(excepted))))

    def test_where_they_belong(self):
        self.check({"tiering/index/a.hpp": "#include <rocksdb/db.h>\n",
                    "tests/unit/tiering/index/a_test.cpp": "#include <rocksdb/db.h>\n",
                    "config/a.cpp": "#include <yaml-cpp/yaml.h>\n", "fs/a.cpp": "#include <nlohmann/json.hpp>\n",
                    "fs/a.hpp": "#include <nlohmann/json_fwd.hpp>\n"}, [])

    def test_elsewhere(self):
        self.check({"fs/a.cpp": "#include <rocksdb/db.h>\n", "fs/b.cpp": "\n#include <yaml-cpp/yaml.h>\n",
                    "config/c.cpp": "#include <spdlog/spdlog.h>\n", "fs/d.hpp": "#include <nlohmann/json.hpp>\n"},
                   ["fs/a.cpp:1", "fs/b.cpp:2", "config/c.cpp:1", "fs/d.hpp:1"])

    def test_an_exception_holds_until_nothing_needs_it(self):
        texts, excepted = {"fs/a.cpp": "#include <rocksdb/db.h>\n"}, [("fs/a.cpp", "rocksdb/")]
        self.check(texts, [], excepted)
        self.check({"fs/a.cpp": ""}, ["tests/house/exceptions.py:1"], excepted)


class TypesTwice(unittest.TestCase):
    def check(self, texts, violations):
        self.assertEqual(sorted(violations), lines(types_twice.twice(Tree(texts))))

    def test_declared_twice_and_namesakes_elsewhere(self):
        self.check({"fs/a.hpp": "namespace tierfs {\nstruct A {};\nstruct B;\nstruct C { struct D {}; };\nA make();\n}\n",
                    "fs/b.hpp": "namespace tierfs {\nstruct A;\nstruct B { struct D {}; };\n}\n"
                                "namespace tierfs::n { struct A {}; }\n",
                    "fs/c.cpp": 'namespace tierfs {\nnamespace {\nstruct A {};\n}\n// struct A {\nauto t = "struct B {";\n'
                                "A make() {\n struct C {}; return {};\n}\n}\n"}, [])

    def test_two_headers(self):
        self.check({"fs/a.hpp": "namespace tierfs {\nclass A final : public B {};\n}\n",
                    "fs/b.hpp": "\nnamespace tierfs {\ntemplate <typename T, typename U = X<T>>\n"
                                "class TIERFS_CAPABILITY(\"x\") A {};\n}\n"},
                   ["fs/b.hpp:4"])

    def test_a_header_and_a_source(self):
        self.check({"fs/a.hpp": "namespace tierfs::n {\nenum class A : int { b };\nusing E = int;\n}\n",
                    "fs/b.cpp": "namespace tierfs {\nnamespace n {\nstruct A {};\n/* x */ using E = long;\n}\n}\n"},
                   ["fs/b.cpp:3", "fs/b.cpp:4"])

    def test_a_specialisation_is_no_second_type(self):
        self.check({"fs/a.hpp": "namespace tierfs {\ntemplate <typename T>\nstruct A {};\n}\n",
                    "fs/b.hpp": "namespace tierfs {\ntemplate <>\nstruct A<int> {};\nstruct stat f() { return {}; }\n}\n",
                    "fs/c.hpp": "namespace tierfs {\nstruct stat g() { return {}; }\n}\n"}, [])


class Lengths(unittest.TestCase):
    def check(self, number, violations, excepted=()):
        tree = Tree({"fs/a.cpp": "\n" * number})
        self.assertEqual(violations, lines(files.lengths(tree, set(excepted))))

    def test_the_most(self):
        self.check(files.MOST, [])

    def test_one_more(self):
        self.check(files.MOST + 1, [f"fs/a.cpp:{files.MOST + 1}"])

    def test_an_exception_holds_until_nothing_needs_it(self):
        self.check(files.MOST + 1, [], ["fs/a.cpp"])
        self.check(files.MOST, ["tests/house/exceptions.py:1"], ["fs/a.cpp"])


class FirstLines(unittest.TestCase):
    def check(self, text, violations):
        self.assertEqual(violations, lines(files.first_lines(Tree({"fs/a.hpp": text, "fs/b.cpp": "// What a source says.\n"}))))

    def test_a_noun(self):
        self.check(A_HEADER, [])
        self.check("// Whatnots.\n", [])

    def test_a_pronoun(self):
        for word in ("What", "Who", "Whoever", "Which", "Whether", "Where", "How", "That", "If", "When"):
            self.check(f"// {word} it is.\n", ["fs/a.hpp:1"])

    def test_none(self):
        self.check("#pragma once\n", ["fs/a.hpp:1"])
        self.check("//\n// A thing.\n", ["fs/a.hpp:1"])


class Listing(unittest.TestCase):
    def test_tracked_and_new_files_but_no_ignored_or_removed_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder)
            subprocess.run(["git", "-C", top, "init", "-q"], check=True)
            for name in ("a.cpp", "gone.cpp", "new.hpp", "note.txt", "build/b.cpp"):
                (top / name).parent.mkdir(exist_ok=True)
                (top / name).touch()
            (top / ".gitignore").write_text("/build/\n")
            subprocess.run(["git", "-C", top, "add", "a.cpp", "gone.cpp"], check=True)
            (top / "gone.cpp").unlink()
            self.assertEqual(["a.cpp", "new.hpp"], Tree.of(top).names)


class Printing(unittest.TestCase):
    def check(self, text, *violations, name="fs/a/b.cpp"):
        self.assertEqual(sorted(violations), lines(files.printing(Tree({name: text}))))

    def test_by_the_printer(self):
        self.check('say(stdout, "x");\nstd::snprintf(a, 1, "x");\n__attribute__((format(printf, 2, 0)))\n')

    def test_by_others(self):
        self.check('std::printf("x");\nstd::cout << 1;\n  fputs(x, stderr);\n', "fs/a/b.cpp:1", "fs/a/b.cpp:2", "fs/a/b.cpp:3")
        self.check('std::printf("x");\n', name="bench/iobench/a.cpp")
