"""A measured child: its output, its end, and its time limit."""

import sys
import time

from cfetch.plugins.lab.bench.child import clean_environment, run_child


def python(code):
    return [sys.executable, "-c", code]


def test_output_exit_code_and_error_are_kept():
    """More output than a pipe holds, an exit code, and the end of stderr."""
    code = "import sys; print('x' * 300_000); sys.stderr.write('a' * 5000 + 'why'); sys.exit(7)"
    outcome = run_child(python(code), limit_s=60)
    assert len(outcome.output) == 300_001
    assert outcome.exit_code == 7
    assert outcome.error.endswith("why")
    assert len(outcome.error) <= 2000
    assert not outcome.killed


def test_cpu_is_the_child_s_own():
    """CPU time is what the child burned, not what its parent did."""
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    outcome = run_child(python(burn), limit_s=60)
    assert 0.5 <= outcome.cpu_s <= outcome.wall_s + 0.5
    assert run_child([sys.executable, "-S", "-c", ""], limit_s=60).cpu_s < outcome.cpu_s


def test_a_child_that_hangs_is_killed_and_said_so():
    """The time limit ends it."""
    outcome = run_child(python("import time; time.sleep(60)"), limit_s=0.2)
    assert outcome.killed
    assert outcome.exit_code == -9


def test_settings_and_proxies_of_the_caller_do_not_reach_it(monkeypatch):
    """What would change a run unseen stays behind; the rest goes along."""
    for name in ("CFETCH_PADDING", "http_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("SOMETHING", "kept")
    seen = run_child(python("import os; print(sorted(os.environ))"), limit_s=60).output.decode()
    assert "SOMETHING" in seen
    assert "PADDING" not in seen
    assert "proxy" not in seen.lower()
    assert clean_environment()["SOMETHING"] == "kept"
