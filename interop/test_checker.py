"""The checker itself: histories made by hand, those that must fail first."""

import json

import checker


class Script:
    """A hand-made log. Times are seconds; every line is stamped with `at`."""

    def __init__(self):
        self.lines = []
        self._numbers = iter(range(1, 100))

    def lease(self, process, at, until):
        self.lines.append({"event": "lease", "process": process, "mono": at, "deadline": until})

    def start(self, process, at, epoch, id="a", env="*"):
        number = next(self._numbers)
        self._add("start", process, at, number, epoch, id, env)
        return number

    def epoch(self, process, at, number, epoch, id="a", env="*"):
        self._add("epoch", process, at, number, epoch, id, env)

    def end(self, process, at, number, epoch=None, id="a", env="*"):
        self._add("end", process, at, number, epoch, id, env)

    def duplicate(self, process, at, id="a"):
        self.lines.append(
            {"event": "duplicate", "process": process, "mono": at, "ns": "/n", "id": id}
        )

    def _add(self, event, process, at, number, epoch, id, env):
        self.lines.append(
            {
                "event": event,
                "process": process,
                "mono": at,
                "env": env,
                "ns": "/n",
                "id": id,
                "activation": number,
                "epoch": None if epoch is None else str(epoch),
            }
        )

    def kinds(self):
        return [violation.kind for violation in checker.check(self.lines)]


def test_two_running_leases_and_one_id_are_two_owners():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 10)
    s.start("p", 1, 5)
    s.start("q", 2, 6)
    assert s.kinds() == ["two live owners"]


def test_a_killed_worker_stays_an_owner_until_its_deadline():
    early, late = Script(), Script()
    for s, at in ((early, 9.999), (late, 10.0)):
        s.lease("p", 0, 10)
        s.lease("q", 0, 30)
        s.start("p", 1, 5)
        s.start("q", at, 6)
    assert early.kinds() == ["two live owners"]
    assert late.kinds() == []


def test_an_instance_is_live_until_its_close_has_ended():
    during, after = Script(), Script()
    for s, at in ((during, 3.9), (after, 4.1)):
        s.lease("p", 0, 10)
        s.lease("q", 0, 10)
        number = s.start("p", 1, 5)
        s.end("p", 4, number)
        s.start("q", at, 6)
    assert during.kinds() == ["two live owners"]
    assert after.kinds() == []


def test_renewals_join_into_one_lease():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("p", 8, 18)
    s.lease("q", 0, 30)
    s.start("p", 1, 5)
    s.start("q", 12, 6)
    assert s.kinds() == ["two live owners"]


def test_a_cap_shortens_the_lease():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("p", 2, 5)
    s.lease("q", 0, 30)
    s.start("p", 1, 5)
    s.start("q", 5, 6)
    assert s.kinds() == []


def test_a_lease_after_a_lapse_brings_the_instance_back():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 60)
    s.start("p", 1, 5)
    taken = s.start("q", 12, 6)
    s.end("q", 15, taken)
    s.lease("p", 20, 30)
    assert s.kinds() == []
    s.start("q", 22, 7)
    assert s.kinds() == ["two live owners"]


def test_back_from_a_lapse_while_another_owns_it():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 60)
    s.start("p", 1, 5)
    s.start("q", 12, 6)
    s.lease("p", 20, 30)
    assert s.kinds() == ["two live owners"]


def test_a_duplicate_does_not_come_back_after_a_lapse():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 60)
    s.start("p", 1, 5)
    s.start("q", 12, 6)
    s.duplicate("p", 20)
    s.lease("p", 20, 30)
    assert s.kinds() == []


def test_a_duplicate_within_its_lease_is_live_until_its_close_has_ended():
    during, after = Script(), Script()
    for s, at in ((during, 5), (after, 7)):
        s.lease("p", 0, 10)
        s.lease("q", 0, 60)
        number = s.start("p", 1, 5)
        s.duplicate("p", 3)
        s.lease("p", 3, 13)
        s.end("p", 6, number)
        s.start("q", at, 6)
    assert during.kinds() == ["two live owners"]
    assert after.kinds() == []


def test_three_owners_are_found_behind_a_long_one():
    s = Script()
    for process in "pqr":
        s.lease(process, 0, 100)
    s.start("p", 1, 1)
    number = s.start("q", 2, 2)
    s.end("q", 3, number)
    s.start("r", 50, 3)
    assert s.kinds() == ["two live owners"] * 2


def test_envs_and_ids_are_apart():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 10)
    s.start("p", 1, 5)
    s.start("q", 2, 5, id="b")
    s.start("q", 2, 5, env="green")
    assert s.kinds() == []


def test_epochs_must_rise():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 30)
    s.start("p", 1, 7)
    s.start("q", 11, 7)
    assert s.kinds() == ["epoch not above"]


def test_epochs_must_rise_within_one_process_too():
    s = Script()
    s.lease("p", 0, 10)
    number = s.start("p", 1, 7)
    s.epoch("p", 2, number, 9)
    s.end("p", 3, number)
    s.start("p", 4, 8)
    assert s.kinds() == ["epoch not above"]


def test_old_memory_must_not_be_adopted_across_another_owner():
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 20)
    number = s.start("p", 1, 5)
    s.start("q", 11, 6)
    s.lease("p", 21, 30)
    s.epoch("p", 22, number, 7)
    assert s.kinds() == ["old memory adopted"]


def test_a_higher_epoch_alone_is_no_violation():
    s = Script()
    s.lease("p", 0, 10)
    number = s.start("p", 1, 5)
    s.epoch("p", 2, number, 6)
    assert s.kinds() == []


def test_no_lease_no_owner():
    s = Script()
    s.start("p", 1, 5)
    s.lease("q", 0, 10)
    s.start("q", 2, 6)
    assert s.kinds() == []


def test_a_line_cut_short_by_a_kill_is_ignored(tmp_path):
    s = Script()
    s.lease("p", 0, 10)
    path = tmp_path / "log"
    path.write_text(json.dumps(s.lines[0]) + '\n{"event": "sta')
    assert checker.read(path) == s.lines


def test_the_command_line_fails_on_a_violation(tmp_path, capsys):
    s = Script()
    s.lease("p", 0, 10)
    s.lease("q", 0, 10)
    s.start("p", 1, 5)
    s.start("q", 2, 6)
    path = tmp_path / "log"
    path.write_text("".join(json.dumps(line) + "\n" for line in s.lines))
    assert checker.main([str(path)]) == 1
    assert "two live owners" in capsys.readouterr().out
