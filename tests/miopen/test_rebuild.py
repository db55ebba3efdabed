"""Trust by reproduction on the real library and compiler: each verdict on a real database."""

from __future__ import annotations

import bz2
import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from small import SMALL, Run

from kdbforge import (
    RebuildOptions,
    RebuildReport,
    Rebuilt,
    Toolchain,
    Verdict,
    build,
    find_gpu,
    plan,
    rebuild,
)
from kdbforge.cli.main import cli
from kdbforge.codeobject.compare import Likeness, compare_objects
from kdbforge.compiler import compile_jobs
from kdbforge.compiler.codediff import diff_code
from kdbforge.errors import InputError, ToolchainError
from kdbforge.kdb.record import Record
from kdbforge.kdb.writer import write_kdb
from kdbforge.miopen.replay import ReplayOptions, replay
from kdbforge.miopen.systemdb import link_system_db
from kdbforge.model.job import Action, ActionOutput, FileInput, Job
from kdbforge.model.plan import Plan
from kdbforge.model.policy import find_policy
from kdbforge.planner.derive import Way
from kdbforge.planner.planfile import write_plan
from kdbforge.problems import ProblemList, load
from kdbforge.store import Store
from kdbforge.vgpu.process import CompileMode

#: Kernel files of the small problems on gfx906, policy default.
HIP, CL = "MIOpenCol2Im2d.cpp.o", "MIOpenSubTensorOpWithScalarKernel.cl.o"


@dataclasses.dataclass(frozen=True)
class Lab:
    """A plan of the small problems and its objects, to make databases of."""

    toolchain: Toolchain
    plan: Plan
    store: Store
    problems: ProblemList

    def record(self, of: str, code: bytes | None = None, **fields: object) -> Record:
        """The record of a kernel file, or one of the same key with other code."""
        (planned,) = [r for r in self.plan.gpus[0].records if r.kernel_name == of]
        entry = self.store.get(planned.job)
        assert entry is not None
        found = Record.pack(
            planned.kernel_name, planned.kernel_args, code or bz2.decompress(entry.blob)
        )
        return dataclasses.replace(found, **fields)  # type: ignore[arg-type]

    def job(self, kernel_name: str) -> Job:
        (planned,) = [r for r in self.plan.gpus[0].records if r.kernel_name == kernel_name]
        return self.plan.jobs[planned.job]

    def compiled(self, job: Job, blobs: Mapping[str, bytes], folder: Path) -> bytes:
        """What the toolchain's compiler makes of a job of ours."""
        key = job.key(self.toolchain.fingerprint)
        store = Store(folder / "odd-store")
        report = compile_jobs(
            self.toolchain, {key: job}, {**self.plan.blobs, **blobs}, store, workers=1,
            work_dir=folder / "odd-work",
        )  # fmt: skip
        assert report.failures == ()
        entry = store.get(key)
        assert entry is not None
        return bz2.decompress(entry.blob)

    def rebuild(self, path: Path, plans: Sequence[Plan] = (), **options: object) -> RebuildReport:
        return rebuild(
            path, self.problems, plans=plans, toolchain=self.toolchain, store=self.store,
            options=RebuildOptions(workers=2, **options),  # type: ignore[arg-type]
        )  # fmt: skip

    def judged(self, folder: Path, *records: Record, plans: Sequence[Plan] = ()) -> list[Rebuilt]:
        """The verdicts on a database of these records."""
        path = folder / "gfx906_60.kdb"
        write_kdb(path, records)
        return list(self.rebuild(path, plans).records)


@pytest.fixture(scope="module")
def lab(toolchain: Toolchain, shared_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "small.txt").write_text(SMALL)
    problems, store = load([str(folder / "small.txt")]), Store(shared_store)
    made = plan(problems, ["gfx906_60"], toolchain=toolchain)
    report = compile_jobs(
        toolchain, made.jobs, made.blobs, store, workers=2, work_dir=folder / "work"
    )
    assert report.failures == ()
    return Lab(toolchain, made, store, problems)


def verdicts(records: Iterable[Rebuilt]) -> list[Verdict]:
    return [record.verdict for record in records]


def with_option(job: Job, old: str, new: str) -> Job:
    """The job with one build option changed in every action that has it."""
    assert old in job.actions[0].options
    return dataclasses.replace(
        job,
        actions=tuple(
            dataclasses.replace(
                action, options=tuple(new if option == old else option for option in action.options)
            )
            for action in job.actions
        ),
    )


def with_source(job: Job, blobs: Mapping[str, bytes], old: bytes, new: bytes) -> tuple[Job, bytes]:
    """The job with another text of its kernel file, and that text."""
    first = job.actions[0]
    source = next(item for item in first.inputs if isinstance(item, FileInput) and item.kind == 1)
    text = blobs[source.digest]
    assert old in text
    text = text.replace(old, new)
    changed = dataclasses.replace(source, digest=hashlib.sha256(text).hexdigest())
    inputs = tuple(changed if item == source else item for item in first.inputs)
    actions = (dataclasses.replace(first, inputs=inputs), *job.actions[1:])
    return dataclasses.replace(job, actions=actions), text


# Databases that hold what they say


def test_what_kdbforge_built(lab: Lab, tmp_path: Path) -> None:
    """Found by asking the library; the file's name says which GPU."""
    report = build(lab.problems, ["gfx1030_40"], tmp_path, toolchain=lab.toolchain, store=lab.store)
    found = lab.rebuild(report.databases[0].path)
    assert set(verdicts(found.records)) == {Verdict.IDENTICAL}
    assert {record.way for record in found.records} == {Way.LIBRARY}
    assert len(found.records) == report.databases[0].records >= 3
    assert found.reproduced


def test_what_libmiopen_wrote_itself(lab: Lab, tmp_path: Path) -> None:
    """A user's own cache, and compiled for one setting of xnack and sramecc."""
    gpu, policy = find_gpu("gfx906:sramecc+:xnack-/60"), find_policy("default")
    system_db = link_system_db(lab.toolchain, tmp_path / "system-db")
    options = ReplayOptions(CompileMode.PASS, policy.calls, system_db, policy.environment)
    result = replay(lab.toolchain, gpu, lab.problems.problems, options, tmp_path / "run")
    (database,) = result.databases
    assert database.name == "gfx906_60.ukdb"
    found = lab.rebuild(database)
    assert set(verdicts(found.records)) == {Verdict.IDENTICAL}
    # OpenCL kernels are never compiled for a setting of sramecc.
    assert {(record.kernel_name.split(".")[-2], record.target) for record in found.records} == {
        ("cpp", "gfx906:sramecc+:xnack-"), ("cl", "gfx906:xnack-"),
    }  # fmt: skip


def test_a_plan_is_enough(lab: Lab, tmp_path: Path) -> None:
    records = lab.judged(tmp_path, lab.record(HIP), lab.record(CL), plans=[lab.plan])
    assert [(r.verdict, r.way) for r in records] == [(Verdict.IDENTICAL, Way.PLAN)] * 2


def test_a_file_for_every_cu_count(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "gfx906.kdb"
    write_kdb(path, [lab.record(HIP), lab.record(CL)])
    assert verdicts(lab.rebuild(path).records) == [Verdict.IDENTICAL] * 2
    assert verdicts(lab.rebuild(path, kernels=("*.cl",)).records) == [Verdict.IDENTICAL]


def test_other_notes(lab: Lab, tmp_path: Path) -> None:
    good = lab.record(CL).unpack()
    other = good.replace(b"clang version", b"Clang version")
    assert other != good
    (found,) = lab.judged(tmp_path, lab.record(CL, other))
    assert found.verdict is Verdict.SAME_CODE
    words = good.replace(b"OpenCL C", b"OpenCL D")
    (found,) = lab.judged(tmp_path, lab.record(CL, words))
    assert (found.verdict, found.reasons) == (Verdict.SAME_CODE, ("The metadata differs",))


def test_a_key_that_no_problem_asks_for_is_compiled_like_others(lab: Lab, tmp_path: Path) -> None:
    old, new = "-DWORK_LENGTH_0=4096", "-DWORK_LENGTH_0=8192"
    code = lab.compiled(with_option(lab.job(CL), old, new), {}, tmp_path)
    known = lab.record(CL)
    args = known.kernel_args.replace(old, new)
    (found,) = lab.judged(tmp_path, lab.record(CL, code, kernel_args=args))
    assert (found.verdict, found.way) == (Verdict.IDENTICAL, Way.ANALOGY)
    # With other code under that key nothing can be said: the analogy may be wrong.
    (found,) = lab.judged(tmp_path, lab.record(CL, kernel_args=args))
    assert found.verdict is Verdict.NOT_DERIVED
    assert found.reasons[0] == "No problem is known that asks for this key"
    assert found.reasons[1].startswith("Compiled like another key of this kernel file: The code")


# Databases that do not


def test_other_options(lab: Lab, tmp_path: Path) -> None:
    """The same source, compiled with something that the key does not say."""
    code = lab.compiled(with_option(lab.job(HIP), "-O3", "-O1"), {}, tmp_path)
    found, good = lab.judged(tmp_path, lab.record(HIP, code), lab.record(CL))
    assert verdicts([found, good]) == [Verdict.DIFFERENT_CODE, Verdict.IDENTICAL]
    assert "The code is another for function `Col2Im2dU`" in found.reasons
    (diff,) = found.diffs
    assert (diff.name, diff.note) == ("Col2Im2dU", "")
    assert diff.lines[0].startswith("@@ -")
    for sign in "-+":  # real instructions on both sides
        assert any(line.startswith((f"{sign}s_", f"{sign}v_")) for line in diff.lines)


def test_another_source(lab: Lab, tmp_path: Path) -> None:
    """As of another version of MIOpen: HIP objects tell by their digest of the text."""
    job, text = with_source(lab.job(HIP), lab.plan.blobs, b"+=", b"-=")
    code = lab.compiled(job, {hashlib.sha256(text).hexdigest(): text}, tmp_path)
    (found,) = lab.judged(tmp_path, lab.record(HIP, code))
    assert found.verdict is Verdict.STALE
    assert "The digests of the source's text differ (`__hip_cuid_*`)" in found.reasons
    assert found.diffs


def test_another_interface(lab: Lab, tmp_path: Path) -> None:
    """OpenCL objects tell by their kernels and arguments."""
    job, text = with_source(lab.job(CL), lab.plan.blobs, b"__kernel void ", b"__kernel void Old")
    code = lab.compiled(job, {hashlib.sha256(text).hexdigest(): text}, tmp_path)
    (found,) = lab.judged(tmp_path, lab.record(CL, code))
    assert found.verdict is Verdict.STALE
    assert found.reasons[0].startswith("Only the record has kernels `OldSubTensorOp")


def test_damage_and_unknown_keys(lab: Lab, tmp_path: Path) -> None:
    good = lab.record(CL)
    path = tmp_path / "gfx906_60.kdb"
    unknown = lab.record(HIP, kernel_name="MIOpenNoSuchKernel.mlir.o")
    elsewhere = lab.record(HIP, kernel_name="MIOpenNeuron.cl.o")
    write_kdb(path, [lab.record(HIP), good, unknown, elsewhere])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(
            "UPDATE kern_db SET kernel_blob = ? WHERE kernel_name = ?",
            (good.kernel_blob[:-50], CL),
        )
    found = {record.kernel_name: record for record in lab.rebuild(path).records}
    assert {name: record.verdict for name, record in found.items()} == {
        HIP: Verdict.IDENTICAL,
        CL: Verdict.DAMAGED,
        "MIOpenNoSuchKernel.mlir.o": Verdict.NOT_DERIVED,
        "MIOpenNeuron.cl.o": Verdict.NOT_DERIVED,
    }
    assert found["MIOpenNoSuchKernel.mlir.o"].reasons == (
        "The library does not know `MIOpenNoSuchKernel.mlir`",
    )
    assert found["MIOpenNeuron.cl.o"].reasons == ("No problem is known that asks for this key",)
    assert "kernel_blob is cut off" in found[CL].reasons[0]


def test_options_that_a_key_must_not_bring_along(lab: Lab, tmp_path: Path) -> None:
    """A stranger's key does not get at the compiler's command line."""
    known = lab.record(CL)
    marker = tmp_path / "pwned"
    odd = known.kernel_args.replace("-DWORK", f"-save-temps=obj -o {marker} -DWORK")
    (found,) = lab.judged(tmp_path, lab.record(CL, kernel_args=odd))
    assert (found.verdict, found.reasons) == (
        Verdict.NOT_DERIVED, ("No problem is known that asks for this key",),
    )  # fmt: skip
    assert not marker.exists()


def test_a_job_that_does_not_compile(lab: Lab, tmp_path: Path) -> None:
    broken, text = with_source(lab.job(CL), lab.plan.blobs, b"__kernel", b"#error gone\n__kernel")
    key = broken.key(lab.toolchain.fingerprint)
    gpu = lab.plan.gpus[0]
    records = tuple(
        dataclasses.replace(record, job=key) for record in gpu.records if record.kernel_name == CL
    )
    odd = dataclasses.replace(
        lab.plan,
        gpus=(dataclasses.replace(gpu, records=records),),
        jobs={key: broken},
        blobs={**lab.plan.blobs, hashlib.sha256(text).hexdigest(): text},
    )
    (found,) = lab.judged(tmp_path, lab.record(CL), plans=[odd])
    assert (found.verdict, found.job) == (Verdict.NOT_REPRODUCIBLE, key)
    assert found.reasons[0] == "The compiler fails: compiler error"


def test_the_difference_is_told_by_instructions(toolchain: Toolchain) -> None:
    navi = (Path(__file__).parents[1] / "unit" / "data" / "scale_gfx1030.co").read_bytes()
    start = 0x600  # of its code, in the file
    other = navi[:start] + b"\xff" * 4 + navi[start + 4 :]
    (found,) = diff_code(toolchain, other, navi, ["kf_scale"])
    assert (found.name, found.note) == ("kf_scale", "")
    assert found.lines[:3] == ("@@ -0 +0 @@", "-(no instruction: ffffffff)", "+s_clause 0x1")
    assert all(line.startswith(" ") for line in found.lines[3:])
    # gfx941, which the compiler does not know any more
    unknown = other[:48] + b"\x4b\x05\x00\x00" + other[52:]
    (found,) = diff_code(toolchain, unknown, navi, ["kf_scale"])
    assert found.lines == ()
    assert found.note.startswith("The disassembler failed")


# Objects of one source that the linker lays out differently

_ARGUMENT, _LONGER = b"number", b"number_of_the_elements_to_be_scaled_in_all_rows"
_SOURCE = b"""
constant float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};
kernel void first(global float* x, int number) { x[get_global_id(0)] *= number; }
kernel void other(global float* x, int number) { x[get_global_id(0)] += number; }
"""
_WITH_TABLE = b"kernel void looks(global float* x) { x[0] = table[get_global_id(0) & 3]; }\n"


def compiled_source(lab: Lab, source: bytes, folder: Path) -> bytes:
    isa = "amdgcn-amd-amdhsa--gfx906"
    options = ("-O3", "-cl-kernel-arg-info")
    digest = hashlib.sha256(source).hexdigest()
    compile_ = Action(0xC, 1, isa, options, "", False, (FileInput(1, "k.cl", digest),))
    code = Action(4, 1, isa, options, "", False, (ActionOutput(0, 6, 0),))
    link = Action(7, 1, isa, (), "", False, (ActionOutput(1, 7, 0),))
    job = Job((compile_, code, link), ActionOutput(2, 8, 0))
    return lab.compiled(job, {digest: source}, folder)


def test_longer_notes_move_everything_and_change_nothing(lab: Lab, tmp_path: Path) -> None:
    one = compiled_source(lab, _SOURCE, tmp_path)
    other = compiled_source(lab, _SOURCE.replace(_ARGUMENT, _LONGER), tmp_path)
    assert len(one) != len(other)
    assert compare_objects(other, one).likeness is Likeness.SAME_CODE
    assert compare_objects(one, other).likeness is Likeness.SAME_CODE


def test_a_kernel_under_the_name_of_another(lab: Lab, tmp_path: Path) -> None:
    """The code is the same, and each launch would run the wrong kernel."""
    good = compiled_source(lab, _SOURCE, tmp_path)
    one, other = b".symbol\xa8first.kd", b".symbol\xa8other.kd"
    evil = good.replace(one, b"?").replace(other, one).replace(b"?", other)
    assert len(evil) == len(good)
    found = compare_objects(evil, good)
    assert found.likeness is Likeness.OTHER_CODE
    assert "The metadata says something else of the kernels" in found.differences


def test_constants(lab: Lab, tmp_path: Path) -> None:
    good = compiled_source(lab, _SOURCE + _WITH_TABLE, tmp_path)
    table = b"\0\0\xc0\x3f\0\0\x20\x40"
    assert table in good
    found = compare_objects(good.replace(table, b"\0\0\xc0\x40\0\0\x20\x40"), good)
    assert found.differences == ("The constants differ",)


# The command


def inside(*words: str | Path) -> int:
    """Exit code of a command run in this process, which spares its start."""
    return int(cli.main(["kdb", "rebuild", *map(str, words)], standalone_mode=False))


def test_on_the_command_line(
    lab: Lab, kdbforge: Run, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plan_path = tmp_path / "gfx906_60.kdb", tmp_path / "small.kdbplan"
    write_plan(lab.plan, plan_path)
    code = lab.compiled(with_option(lab.job(HIP), "-O3", "-O1"), {}, tmp_path)
    write_kdb(path, [lab.record(HIP, code), lab.record(CL)])
    common = (path, "--plan", plan_path, "--from", small, "--store", lab.store.root)
    done = kdbforge("kdb", "rebuild", *common)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"different code: record 1  {HIP}  -DMIOPEN_USE_FP16=1")
    assert "    Col2Im2dU: - recorded, + rebuilt" in lines
    assert lines[-1] == (
        f"{path}: 2 records: 1 identical, 1 different code (toolchain {lab.toolchain.name})"
    )
    assert inside(*common, "--kernel", "*.cl", "--json") == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert (found["reproduced"], found["counts"]["identical"]) == (True, 1)
    assert (found["records"][0]["verdict"], found["records"][0]["way"]) == ("identical", "plan")
    assert "warning" not in output.err


def test_a_manifest_of_another_toolchain(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plan_path = tmp_path / "gfx906_60.kdb", tmp_path / "small.kdbplan"
    write_plan(lab.plan, plan_path)
    write_kdb(path, [lab.record(CL)])
    manifest = {
        "toolchain": {**dataclasses.asdict(lab.plan.toolchain), "fingerprint": "0" * 64},
        "schema": 1, "policy": "default", "problems": {"count": 3}, "environment": {},
        "files": [], "gpus": [], "missing": [], "proofs": [],
    }  # fmt: skip
    path.with_suffix(".manifest.json").write_text(json.dumps(manifest))
    words = (path, "--plan", plan_path, "--store", lab.store.root)
    assert inside(*words) == 0
    output = capsys.readouterr()
    assert f"built with `{lab.toolchain.name}`, which is not this toolchain" in output.err
    assert output.out.endswith(f"1 record: 1 identical (toolchain {lab.toolchain.name})\n")
    assert inside(*words, "-q") == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kernel", "no*"], "No kernel file of .* fits `no\\*`"),
        (["--gpu", "gfx9"], "Unknown GPU"),
        (["--plan", __file__], "is not a whole kdbforge plan"),
        (["--from", "nowhere.txt"], "Cannot read `nowhere.txt`"),
    ],
)
def test_bad_input(lab: Lab, tmp_path: Path, words: list[str], message: str) -> None:
    write_kdb(tmp_path / "a.kdb", [lab.record(CL)])
    with pytest.raises(InputError, match=message):
        inside(tmp_path / "a.kdb", "--store", lab.store.root, *words)


def test_a_plan_of_another_toolchain(lab: Lab, tmp_path: Path) -> None:
    write_kdb(tmp_path / "a.kdb", [lab.record(CL)])
    other = dataclasses.replace(lab.plan.toolchain, fingerprint="0" * 64)
    with pytest.raises(ToolchainError, match="The plan was made with another toolchain"):
        lab.rebuild(tmp_path / "a.kdb", [dataclasses.replace(lab.plan, toolchain=other)])
