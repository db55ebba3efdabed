"""Disassembly on the real libamd_comgr: what it says, and what a bad object costs."""

from __future__ import annotations

import bz2
import hashlib
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kdbforge.cli.main import cli
from kdbforge.codeobject.checks import check_static
from kdbforge.codeobject.details import functions, read_details
from kdbforge.codeobject.image import read_image
from kdbforge.compiler import compile_jobs
from kdbforge.compiler.disassemble import Disassembly, check_code, disassemble
from kdbforge.errors import UnknownNameError, WorkerError
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.toolchain import Toolchain
from kdbforge.store import Store

DATA = Path(__file__).parent.parent / "unit" / "data"
NAVI = (DATA / "scale_gfx1030.co").read_bytes()
CDNA = (DATA / "scale_gfx90a_xnack+.co").read_bytes()


SOURCE = b"""
kernel void lds(global float* x, int n) {
    local float s[1024];
    s[get_local_id(0)] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[get_global_id(0)] = s[(get_local_id(0) * 7 + n) % 1024];
}
__attribute__((noinline)) int helper(int x) { return x * 3 + 1; }
kernel void stack(global int* x, int n) {
    int a[64];
    for(int i = 0; i < 64; i++) a[i] = x[i * n];
    x[get_global_id(0)] = helper(a[x[n] & 63]);
}
"""
ARCHS = ("gfx803", "gfx906", "gfx90a", "gfx942", "gfx1010", "gfx1100", "gfx1201", "gfx1250")


def texts(function: Disassembly) -> list[str | None]:
    return [instruction.text for instruction in function.instructions]


@pytest.mark.parametrize(
    ("data", "first", "count"),
    [
        (NAVI, "s_clause 0x1", 10),
        (CDNA, "s_load_dwordx2 s[0:1], s[4:5], 0x0", 9),
    ],
)
def test_real_objects(toolchain: Toolchain, data: bytes, first: str, count: int) -> None:
    (function,) = disassemble(toolchain, data)
    assert function.name == "kf_scale"
    found = texts(function)
    assert (found[0], found[-1], len(found)) == (first, "s_endpgm", count)
    assert "global_store_dword v0, v1, s[0:1]" in found
    # The instructions cover all of the code, each once.
    at = function.address
    for instruction in function.instructions:
        assert instruction.address == at
        at += instruction.size
    assert at == function.address + len(function.code)


NAVI_CODE = functions(read_image(NAVI))[0].code


def with_code(data: bytes, code: bytes) -> bytes:
    """The object with other instructions at the start of its kernel."""
    image = read_image(data)
    (symbol,) = [s for s in image.symbols() if s.name == "kf_scale"]
    segment = image.segment_at(symbol.address)
    assert segment is not None
    offset = segment.offset + symbol.address - segment.address
    return data[:offset] + code + data[offset + len(code) :]


def test_branches_and_what_is_no_instruction(toolchain: Toolchain) -> None:
    branch = (0xBF820002).to_bytes(4, "little")  # s_branch 2
    (function,) = disassemble(toolchain, with_code(NAVI, branch + b"\xff" * 8))
    first, second, third, *rest = function.instructions
    assert (first.text, first.branch_target) == ("s_branch 2", function.address + 12)
    for word in (second, third):
        assert (word.size, word.text, word.branch_target) == (4, None, None)
    assert rest[-1].text == "s_endpgm"
    (finding,) = check_code([function])
    assert finding.kernel == "kf_scale"
    assert finding.message == f"2 of its words are no instruction, the first at {second.address:#x}"


def test_control_that_leaves_its_function(toolchain: Toolchain) -> None:
    image = read_image(NAVI)
    (size,) = [s.size for s in image.symbols() if s.name == "kf_scale"]
    # Far behind the end; into the middle of an instruction; no s_endpgm any more.
    code = b"".join(word.to_bytes(4, "little") for word in (0xBF827000, 0xBF820001))
    code += NAVI_CODE[8 : size - 4] + b"\0\0\x80\xbf"
    messages = [f.message for f in check_code(disassemble(toolchain, with_code(NAVI, code)))]
    assert messages[0].startswith("`s_branch 28672` at 0x1600 leads to where no")
    assert messages[1].startswith("`s_branch 1` at 0x1604 leads to where no")
    assert messages[2] == "It goes on behind its last instruction"


def cl_job(arch: str) -> Job:
    """The chain that MIOpen runs for OpenCL (comgr.cpp)."""
    isa = f"amdgcn-amd-amdhsa--{arch}"
    digest = hashlib.sha256(SOURCE).hexdigest()
    compiled = Action(0xC, 1, isa, (), "", False, (FileInput(1, "k.cl", digest),))
    code = Action(4, 1, isa, ("-O3",), "", False, (ActionOutput(0, 6, 0),))
    linked = Action(7, 1, isa, (), "", False, (ActionOutput(1, 7, 0),))
    return Job((compiled, code, linked), ActionOutput(2, 8, 0))


def test_nothing_is_wrong_with_what_the_compiler_makes(
    toolchain: Toolchain, tmp_path: Path
) -> None:
    jobs = {cl_job(arch).key(toolchain.fingerprint): cl_job(arch) for arch in ARCHS}
    blobs = {hashlib.sha256(SOURCE).hexdigest(): SOURCE}
    store = Store(tmp_path / "store")
    report = compile_jobs(toolchain, jobs, blobs, store, workers=2, work_dir=tmp_path / "work")
    assert report.failures == ()
    for arch, key in zip(ARCHS, jobs, strict=True):
        entry = store.get(key)
        assert entry is not None
        data = bz2.decompress(entry.blob)
        assert check_static(data) == ()
        lds, stack = read_details(data).kernels
        assert (lds.descriptor.lds_bytes, stack.descriptor.lds_bytes) == (4096, 0)
        assert stack.descriptor.scratch_bytes >= 256
        assert lds.wave_size == (32 if arch.startswith("gfx1") else 64)
        code = disassemble(toolchain, data)
        assert sorted(function.name for function in code) == ["helper", "lds", "stack"]
        assert check_code(code) == ()


def test_names(toolchain: Toolchain) -> None:
    assert [f.name for f in disassemble(toolchain, NAVI, names=["kf_scale"])] == ["kf_scale"]
    with pytest.raises(UnknownNameError, match="Unknown function `kf_scala`"):
        disassemble(toolchain, NAVI, names=["kf_scala"])


def test_a_processor_that_the_compiler_does_not_know(toolchain: Toolchain) -> None:
    gfx941 = NAVI[:48] + b"\x4b\x05\x00\x00" + NAVI[52:]
    with pytest.raises(WorkerError, match="disassembler failed: exit status 1") as caught:
        disassemble(toolchain, gfx941)
    assert any("gfx941" in line for line in caught.value.context)


def test_on_the_command_line(toolchain: Toolchain, tmp_path: Path) -> None:
    write_kdb(tmp_path / "a.kdb", [Record.pack("scale.cpp.o", " -mcpu=gfx1030", NAVI)])
    words = ["kdb", "show", str(tmp_path / "a.kdb"), "1", "--isa"]
    text = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert re.search(r"^kf_scale:\n +1600: s_clause 0x1 +// BFA10001$", text, re.MULTILINE)
    assert re.search(r"^ +1634: s_endpgm +// BF810000$", text, re.MULTILINE)
    found = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    (function,) = found["code_objects"][0]["isa"]
    assert function["instructions"][0] == {
        "address": 0x1600, "size": 4, "text": "s_clause 0x1", "branch_target": None,
    }  # fmt: skip
