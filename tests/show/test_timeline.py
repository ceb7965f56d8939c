"""The picture of what recorded ranks did."""

import numpy as np
import pytest
from whatif_programs import spa

import pylb
from pylb.errors import DomainError
from pylb.prediction.recorder.recording import Recording

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_bars_are_the_times_of_the_prediction():
    run = spa(one=5.4, two=7.3, own=(1.0, 13.0, 13.0), server_work=3.4, rounds=6)
    told = pylb.whatif(run, network=(0.0, 0.0), overhead=0.0, steps=True)
    path = pylb.prediction.critical_path(run)
    ax = pylb.plots.timeline(run, told, path)
    widths = [sum(np.ptp(p.vertices[:, 0]) for p in bars.get_paths()) for bars in ax.collections]
    computing, waiting = widths[::2], widths[1::2]
    np.testing.assert_allclose(computing, told.busy, rtol=1e-6)
    np.testing.assert_allclose(np.add(computing, waiting), told.finish, rtol=1e-6)
    (line,) = ax.lines
    x, y = line.get_data()
    assert (np.diff(x) >= -1e-9).all()
    assert x[-1] == pytest.approx(path.time)
    assert set(y.tolist()) <= {0, 1, 2, 3}


def test_bad_input():
    run = spa(rounds=2)
    with pytest.raises(DomainError, match="expected whatif"):
        pylb.plots.timeline(run, pylb.whatif(run))
    many = Recording.of([[{"kind": "END"}]] * 65)
    with pytest.raises(DomainError, match="65 ranks"):
        pylb.plots.timeline(many, pylb.whatif(many, steps=True))
