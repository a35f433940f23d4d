"""The alerts for Prometheus and the dashboard for Grafana: they stand on metrics that there are, and say something. No test here
takes a build; test_package.py sees that both are installed."""

import json
import re
import shutil

import pytest

from conftest import REPOSITORY, run

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")

ALERTS = REPOSITORY / "packaging/prometheus/tierfs.rules.yaml"
TESTS = ALERTS.with_name("tierfs.rules.test.yaml")
CONFIGURATION = ALERTS.with_name("prometheus.yaml")
DASHBOARD = REPOSITORY / "packaging/grafana/tierfs.json"
GUIDE = REPOSITORY / "man/tierfs-guide.7"

NAME = re.compile(r"\btierfs_[a-z0-9_]+")
# Of targets, not of metrics.
OF_TARGETS = {"instance", "job"}
# Of the labels that expressions ask for by value; others have any.
VALUES = {"tier": ("ram", "nvme", "origin"), "size": ("small", "large"), "difference": ("new", "changed"), "kind": ("get", "put")}
# Variables of Grafana itself, and a value for each.
BUILT_IN = {"__rate_interval": "5m"}

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed (Debian's package prometheus)")


def manual():
    """The metrics of tierfs(8), with kind and labels. A unit test holds the list to the program."""
    text = (REPOSITORY / "man/tierfs.8").read_text(encoding="utf-8")
    part = text.partition('.\\" metrics begin')[2].partition('.\\" metrics end')[0]
    found = re.findall(r"^\.B (\w+)(?:\{([\w,]+)\})?\n(\w+): ", part, re.M)
    assert len(found) > 60 and len(found) == part.count(".TP"), "the list is not written as it was"
    return {name: (kind, set(labels.split(",")) - {""}) for name, labels, kind in found}


METRICS = manual()
RULES = [rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
CASES = yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
BOARD = json.loads(DASHBOARD.read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
VARIABLES = {one["name"]: one for one in BOARD["templating"]["list"]}
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = ([(rule["alert"], rule["expr"]) for rule in RULES] + [(title, target["expr"]) for title, target in TARGETS] +
               [(name, one["query"]["query"]) for name, one in VARIABLES.items() if one["type"] == "query"])


def metric(series):
    """Its kind and labels; those of a histogram's series have its suffixes."""
    if series in METRICS:
        assert METRICS[series][0] != "histogram", f"{series} is a histogram: it has _bucket, _sum and _count"
        return METRICS[series]
    name, suffix = series.rpartition("_")[::2]
    assert METRICS.get(name, ("",))[0] == "histogram" and suffix in ("bucket", "sum", "count"), f"tierfs(8) has no {series}"
    return "counter", METRICS[name][1] | ({"le"} if suffix == "bucket" else set())


def words(text):
    return {word.strip() for word in text.split(",")} - {""}


def labels_of(text):
    """All that the series in it may have."""
    return OF_TARGETS.union(*(metric(name)[1] for name in NAME.findall(text)))


def inside(text):
    """What the bracket holds that it begins with."""
    depth = 0
    for at, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth == 0:
            return text[:at + 1]
    raise AssertionError(f"a bracket is open: {text}")


def without_values(expression):
    return re.sub(r'"[^"]*"', '""', expression)


@needs_promtool
def test_promtool_accepts_the_alerts_and_the_configuration():
    for done in (run("promtool", "check", "rules", ALERTS), run("promtool", "check", "config", CONFIGURATION)):
        assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


@needs_promtool
def test_alerts_fire_when_they_should_and_else_do_not():
    done = run("promtool", "test", "rules", TESTS.name, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_for_both():
    """In the case of its name it fires, with its severity, for one mount and not for another."""
    assert [case["name"] for case in CASES] == [rule["alert"] for rule in RULES]
    for rule, case in zip(RULES, CASES):
        there = {re.search(r'instance="(\w+)"', one["series"])[1] for one in case["input_series"]}
        fires = [sample["labels"] for test in case["promql_expr_test"] for sample in test["exp_samples"]
                 if f'alertname="{rule["alert"]}", alertstate="firing"' in sample["labels"]]
        assert fires and all(f'severity="{rule["labels"]["severity"]}"' in labels for labels in fires), rule["alert"]
        assert there - {re.search(r'instance="(\w+)"', labels)[1] for labels in fires}, f"{rule['alert']} fires for all"
        for labels in fires:
            # Labels that the texts name are there.
            assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= set(re.findall(r'(\w+)="', labels)), labels


def test_alerts_say_what_it_means_and_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        summary, description = rule["annotations"]["summary"], rule["annotations"]["description"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info") and rule["alert"].startswith("Tierfs")
        assert "instance" in summary + description and "\n" not in summary + description
        assert "`tierfs " in description and len(description) > 200, rule["alert"]


def test_no_sentence_begins_with_a_pronoun():
    texts = [text for rule in RULES for text in rule["annotations"].values()]
    texts += [panel[part] for panel in PANELS for part in ("title", "description")]
    assert not [text for text in texts if re.search(r"(?:^|[.:;] )(?:What|Who|Whether)\b", text)]


@pytest.mark.parametrize("where, expression", EXPRESSIONS, ids=[where for where, _ in EXPRESSIONS])
def test_metrics_and_labels_are_those_of_the_manual(where, expression):
    text = without_values(expression)
    assert where and all(metric(name) for name in NAME.findall(text))
    assert all(name.startswith("tierfs_") or name == "up" for name in re.findall(r"\b([a-zA-Z_:][\w:]*)(?=[{[])", text)), text
    for name, selectors in re.findall(r"\b(tierfs_\w+|up)\{([^}]*)\}", text):
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selectors))
        assert asked <= labels_of(name), f"{name} has no {asked - labels_of(name)}"
    for found in re.finditer(r"\b(?:by|without) \(([^)]*)\) (?=\()", text):
        of = inside(text[found.end():])
        assert words(found[1]) <= labels_of(of), f"{of} has no {words(found[1]) - labels_of(of)}"
    for found in re.finditer(r"\b(?:on|ignoring|group_left|group_right) \(([^)]*)\)", text):
        assert words(found[1]) <= labels_of(text), f"nothing has {words(found[1]) - labels_of(text)}"
    assert len(re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\b", text)) == len(
        re.findall(r"\b(?:by|without) \([^)]*\) \(|\b(?:on|ignoring|group_left|group_right) \([^)]*\)", text)), "not written as this reads it"
    for name in re.findall(r"\b(?:rate|increase)\((\w+)", text):
        assert metric(name)[0] == "counter", f"{name} is no counter"
    for name in re.findall(r"\b(?:avg|min|max|last)_over_time\((\w+)", text):
        assert metric(name)[0] == "gauge", f"{name} is no gauge"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases_are_made_of_metrics_that_there_are(case):
    for one in case["input_series"]:
        name, labels = re.fullmatch(r"(\w+)\{(.*)\}", one["series"]).groups()
        assert name == "up" or labels_of(name) == set(re.findall(r'(\w+)="', labels)), one["series"]


def test_the_dashboard_is_whole():
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids) and BOARD["uid"] == "tierfs" and BOARD["schemaVersion"] >= 38
    assert len({panel["title"] for panel in BOARD["panels"]}) == len(ids)
    for panel in PANELS:
        assert " " in panel["title"] and panel["title"][0].isupper() and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"] and panel["datasource"]["uid"] == "${datasource}"
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) and all(target["expr"] for target in panel["targets"])
    assert not [panel for panel in BOARD["panels"] if panel.get("panels")], "all rows are open"


def test_panels_lie_beside_each_other_and_fill_the_page():
    taken = {}
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["w"] > 0 and place["h"] > 0 and place["x"] >= 0 and place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"], f"{panel['title']} lies on {taken[x, y]}"
    assert len(taken) == 24 * (1 + max(y for _, y in taken)), "there are holes"


def test_variables_are_defined_and_used():
    text = DASHBOARD.read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{?(\w+)", text))
    assert used - {*BUILT_IN, "__all"} == set(VARIABLES), "defined, or used, or both"
    assert all(one["type"] == "datasource" or one["datasource"]["uid"] == "${datasource}" for one in VARIABLES.values())


def test_legends_name_labels_that_the_series_have():
    for title, target in TARGETS:
        text = without_values(target["expr"])
        kept = re.findall(r"\bby \(([^)]*)\)", text)
        left = set().union(*map(words, kept)) if kept else set() if text.startswith("sum(") else labels_of(text)
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left, title


def filled(expression):
    for name, value in {**BUILT_IN, "instance": ".*", "mount": ".*"}.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression
    return expression


def series_of_all_metrics():
    """Each counts up or stays, for two mounts."""
    for name, (kind, labels) in METRICS.items():
        several = sorted(labels & set(VALUES))
        for value in VALUES[several[0]] if several else ("",):
            for instance in ("n1", "n2"):
                text = "".join(f', {label}="{value if label in several else "x"}"' for label in sorted(labels))
                before, growing = f'{{job="tierfs", instance="{instance}"{text}', "1+60x60"
                if kind == "histogram":
                    for bound in ("0.001024", "0.065536", "+Inf"):
                        yield f'{name}_bucket{before}, le="{bound}"}}', growing
                    yield f"{name}_sum{before}}}", growing
                    yield f"{name}_count{before}}}", growing
                else:
                    yield f"{name}{before}}}", growing if kind == "counter" else "1x60"
    yield 'up{job="tierfs", instance="n1"}', "1x60"


@needs_promtool
def test_every_panel_shows_something(tmp_path):
    """By Prometheus's own evaluation, of samples of all metrics; a value that is no number does not count."""
    asked = [{"expr": f"count(({filled(target['expr'])}) > -Inf) > bool 0", "eval_time": "50m",
              "exp_samples": [{"labels": "{}", "value": 1}]} for _, target in TARGETS]
    series = [{"series": name, "values": values} for name, values in series_of_all_metrics()]
    case = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": asked}]}
    (tmp_path / "panels.yaml").write_text(json.dumps(case))
    done = run("promtool", "test", "rules", tmp_path / "panels.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_every_expression_of_the_dashboard_is_one(tmp_path):
    rules = [{"record": f"panel:{number}", "expr": filled(target["expr"])} for number, (_, target) in enumerate(TARGETS)]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = run("promtool", "check", "rules", tmp_path / "rules.yaml")
    assert done.returncode == 0 and f"{len(TARGETS)} rules found" in done.stdout, done.stdout + done.stderr


def test_the_guide_has_each_alert():
    """And none that there is not; no more do the texts of the dashboard."""
    known = {rule["alert"] for rule in RULES}
    assert set(re.findall(r"\bTierfs[A-Z]\w+", GUIDE.read_text(encoding="utf-8"))) == known
    assert set(re.findall(r"\bTierfs[A-Z]\w+", DASHBOARD.read_text(encoding="utf-8"))) <= known
