"""docs/pytorch.md: its programs run and are recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch.nn", reason="needs PyTorch: pip install 'kdbforge[torch]'")

from kdbforge.torch.__main__ import report_of

DOCUMENT = Path(__file__).parents[2] / "docs/pytorch.md"


def test_its_python_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, session = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    namespace: dict[str, object] = {}
    exec(compile(session, DOCUMENT, "exec"), namespace)  # the reader runs it, too
    assert "MIOpenDriver convfp16 -n 1 -c 3 -k 64 -H 224" in capsys.readouterr().out
    assert len(namespace["found"]) == 1  # type: ignore[arg-type]
    path = tmp_path / "train.py"
    path.write_text(script)
    monkeypatch.syspath_prepend(tmp_path)
    report = report_of(path, "make_step")
    lines = [line for line, _, _ in report["calls"]]
    assert [line.split()[1] for line in lines] == [
        "convfp16", "bnormfp16", "bnormfp16", "convfp16",
    ]  # fmt: skip
