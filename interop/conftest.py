"""Fixtures, and the report of a failed test: the logs of its processes."""

import pytest

import harness
import processes


def pytest_terminal_summary(terminalreporter):
    """What tests measured, also when they ran in other processes."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture(scope="session")
def binary():
    """The pinboard command, built from this tree."""
    processes.build()
    return processes.binary()


def pytest_collection_modifyitems(items):
    """Tests of one shared cluster run in one test process, one after another."""
    for item in items:
        if "shared" in item.fixturenames:
            store = item.callspec.params["shared"]
            item.add_marker(pytest.mark.xdist_group(f"shared {store}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    cluster = item.funcargs.get("cluster") or item.funcargs.get("shared")
    if report.failed and cluster is not None:
        for path, text in cluster.outputs().items():
            report.sections.append((path.name, text))
        report.sections.append(("activations", cluster.log.read_text()[-6000:]))
    return report


@pytest.fixture
def cluster(tmp_path, binary):
    """An empty cluster; whatever the test starts in it is stopped, and the
    activation log is checked when the test has passed."""
    yield from _running(harness.Cluster(tmp_path))


@pytest.fixture(scope="module", params=["memory:", "redis"])
def shared(request, tmp_path_factory, binary):
    """A cluster for tests that disturb nobody: over Redis it has two nodes,
    each worker beats at one of them and serves requests of both."""
    cluster = harness.Cluster(tmp_path_factory.mktemp("shared"))
    nodes = 2 if request.param == "redis" else 1
    yield from _running(cluster, store=request.param, nodes=nodes)


def _running(cluster, **start):
    try:
        if start:
            cluster.start(**start)
        yield cluster
    finally:
        cluster.stop()
    cluster.check()


@pytest.fixture(params=["memory:", "redis"])
def store(request):
    """Both stores, one after the other."""
    return request.param
