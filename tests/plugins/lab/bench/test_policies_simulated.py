"""The script that compares policies over simulated networks: one network, one seed."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[4] / "benchmarks" / "policies_simulated.py"


def test_one_network_with_one_seed():
    """A row for each policy asked for, measured against the oracle and the run without mitigation."""
    command = [sys.executable, str(SCRIPT), "--networks", "lone-file", "--seeds", "1", "--jobs", "1"]
    done = subprocess.run(
        [*command, "--policies", "none,adaptive", "--json"], capture_output=True, check=True, timeout=300
    )
    none, adaptive = json.loads(done.stdout)
    assert (none["policy"], adaptive["policy"], adaptive["network"]) == ("none", "adaptive", "lone-file")
    assert (none["over_none_worst"], none["failed"], adaptive["failed"]) == (1.0, 0, 0)
    assert adaptive["ratio_p50"] == adaptive["ratio_worst"] >= 0.99
    assert adaptive["makespan_s"] < none["makespan_s"] / 10
