"""Whether Linux can keep siblings idle; a kernel that sees siblings does so in tests/vm/test_siblings.py."""

import errno

import pytest

from runner.backend import BackendError, ExecutionEnvironment
from runner.backends.tsc import TscBackend
from runner.host import core_scheduling


def test_without_siblings_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_scheduling, "siblings", lambda _: [])
    monkeypatch.setattr(core_scheduling, "_refusal", lambda: errno.ENODEV)
    assert not core_scheduling.must_be_asked_for(0)


def test_with_siblings_the_kernel_is_asked_or_the_user_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_scheduling, "siblings", lambda _: [1])
    monkeypatch.setattr(core_scheduling, "_refusal", lambda: 0)
    assert core_scheduling.must_be_asked_for(0)
    monkeypatch.setattr(core_scheduling, "_refusal", lambda: errno.EINVAL)
    with pytest.raises(BackendError, match=r"cannot keep CPU 1 idle.* no core scheduling"):
        core_scheduling.must_be_asked_for(0)


def test_this_kernel_answers_as_its_version_does() -> None:
    assert core_scheduling._refusal() in (0, errno.EINVAL, errno.ENODEV)


def test_asking_changes_nothing_where_nobody_shares_the_core(tsc: TscBackend) -> None:
    cpu = int(tsc.info().provenance.options["cpu"])
    try:
        has_to_ask = core_scheduling.must_be_asked_for(cpu)
    except BackendError:
        with pytest.raises(BackendError, match="cannot keep CPU"):
            tsc.provide(ExecutionEnvironment(idle_siblings=True))
        return
    tsc.provide(ExecutionEnvironment(idle_siblings=True))
    asked = tsc.info().provenance.options.get("siblings kept idle", "")
    assert bool(asked) == has_to_ask
    tsc.provide(ExecutionEnvironment())
