from __future__ import annotations

import logging
import math
import pickle
import uuid
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raytide.elastic.model import Position
from raytide.errors import ConfigError, StateMismatch
from raytide.train.captured import capture
from raytide.train.checkpoint import Checkpoint, CheckpointError, CheckpointMeta, CheckpointStore
from raytide.train.checkpoint_files import DATA_FILES, MARKER
from raytide.train.checkpoint_place import Place
from raytide.train.registry import Registry


@pytest.fixture(params=["local", "file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "local": str(tmp_path / "run"),
        "file": f"file://{tmp_path}/run",
        "memory": f"memory://{uuid.uuid4().hex}/run",
    }[request.param]


def meta(step: int = 1, **changes: Any) -> CheckpointMeta:
    fields = {"job": "digits", "position": Position(step, 2, 64), "world_size": 3, "metrics": {"loss": 0.5}}
    return CheckpointMeta(**fields | changes)


def write(store: CheckpointStore, step: int, value: Any = None) -> Checkpoint:
    return store.write(capture({"step": step, "x": torch.full((3,), step)} if value is None else value), meta(step))


def steps(store: CheckpointStore) -> list[int]:
    return [c.meta.position.step for c in store.list()]


def directories(store: CheckpointStore) -> list[str]:
    return sorted(Place.of(store.root, "root").names())


def assert_same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


def train(optimizer_class: type[torch.optim.Optimizer], **options: Any) -> Registry:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    model.register_buffer("mask", torch.tensor([True, False, True]))
    optimizer = optimizer_class(model.parameters(), **options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    registry = Registry()
    for item in (model, optimizer, scheduler):
        registry.add(item)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 6)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    return registry


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(torch.optim.Adam, {"lr": 0.1, "amsgrad": True}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})],
)
def test_state_of_a_trained_model_comes_back_whole_and_loads_into_new_objects(root, optimizer, options):
    state = train(optimizer, **options).state()
    store = CheckpointStore(root)
    written = store.write(capture(state), meta())
    value, read_meta = store.read(written.path)
    assert_same(capture(state).value(), value)
    assert read_meta == meta()
    train(optimizer, **options).load(value, written.path)


UNUSUAL = {
    "scalar": torch.tensor(3.5, dtype=torch.float64),
    "bf16": torch.randn(3, 2).to(torch.bfloat16),
    "half": torch.randn(3).half(),
    "float8": torch.randn(4).to(torch.float8_e4m3fn),
    "complex": torch.randn(3, dtype=torch.complex64),
    "empty": torch.empty(0),
    "empty of a shape": torch.empty(0, 4, dtype=torch.int16),
    "bool": torch.tensor([True, False]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "transposed": torch.randn(4, 6).t(),
    "strided": torch.randn(10)[1::3],
    "slice of a large one": torch.zeros(1_000_000)[7:9],
    "expanded": torch.randn(1).expand(4),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "parameter": nn.Parameter(torch.randn(2)),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_tensors_come_back_equal(root, name):
    value = write(CheckpointStore(root), 1, {"x": UNUSUAL[name]}).load()["x"]
    assert value.dtype == UNUSUAL[name].dtype
    assert value.shape == UNUSUAL[name].shape
    bits = UNUSUAL[name].detach().contiguous().reshape(-1).view(torch.uint8)
    assert torch.equal(value.contiguous().reshape(-1).view(torch.uint8), bits)
    assert not value.requires_grad


def test_a_slice_is_written_without_the_rest_of_its_storage(tmp_path):
    path = write(CheckpointStore(str(tmp_path)), 1, {"x": torch.zeros(1_000_000)[:5]}).path
    assert (Path(path) / DATA_FILES[1]).stat().st_size < 10_000


LEAVES = {
    "none": None,
    "nested": [1, (2.5, "a"), {3: [True]}],
    "infinity": math.inf,
    "betas": (0.9, 0.999),
    "": {},
}


@pytest.mark.parametrize("value", [LEAVES, {}, [torch.ones(2), {"deep": [(torch.zeros(1),)]}], torch.ones(2)])
def test_values_that_are_not_tensors_and_any_nest_come_back(root, value):
    assert_same(write(CheckpointStore(root), 1, value).load(), value)


def test_many_tensors_keep_their_order(root):
    value = [torch.full((2,), i) for i in range(120)]
    assert_same(write(CheckpointStore(root), 1, value).load(), value)


def test_meta_is_read_without_unpickling(root, monkeypatch):
    store = CheckpointStore(root)
    written = meta(7, metrics={"loss": torch.tensor(0.5), "nan": math.nan}, extra={"streams": {"a": [1, 2]}})
    store.write(capture([]), written)
    monkeypatch.setattr(pickle, "loads", lambda data: pytest.fail("unpickled"))
    monkeypatch.setattr(pickle, "load", lambda file: pytest.fail("unpickled"))
    found = store.latest().meta
    assert found.extra == {"streams": {"a": [1, 2]}}
    assert found.position == Position(7, 2, 64)
    assert found.metrics["loss"] == 0.5
    assert math.isnan(found.metrics["nan"])


def test_checkpoints_are_listed_by_step_and_named_so_that_names_sort(root):
    store = CheckpointStore(root)
    assert store.list() == []
    assert store.latest() is None
    for step in (9, 120, 10):
        write(store, step)
    assert steps(store) == [9, 10, 120]
    assert directories(store) == ["step-000000009", "step-000000010", "step-000000120"]
    assert store.latest() == store.list()[-1]


def test_keep_leaves_the_newest(root):
    store = CheckpointStore(root, keep=2)
    for step in range(1, 6):
        write(store, step)
    assert steps(store) == [4, 5]
    assert directories(store) == ["step-000000004", "step-000000005"]


def test_a_checkpoint_just_written_stays_even_if_later_steps_exist(root):
    write(CheckpointStore(root), 50)
    assert write(CheckpointStore(root, keep=1), 10).load()["step"] == 10


def test_the_same_step_again_replaces_it(root):
    store = CheckpointStore(root)
    write(store, 5, {"try": 1})
    write(store, 5, {"try": 2})
    last = write(store, 5, {"try": 3})
    assert [c.load() for c in store.list()] == [{"try": 3}]
    assert store.latest() == last
    assert len(directories(store)) == 1


def test_replacing_a_step_keeps_the_old_one_until_the_new_one_is_complete(root, monkeypatch):
    store = CheckpointStore(root, keep=1)
    old = write(store, 5, {"try": 1})
    put = Place.put

    def look(self: Place, name: str, data: bytes) -> None:
        assert old.load() == {"try": 1}
        assert store.latest() == old
        put(self, name, data)

    monkeypatch.setattr(Place, "put", look)
    assert write(store, 5, {"try": 2}) != old
    assert [c.load() for c in store.list()] == [{"try": 2}]


def test_two_stores_see_the_same_checkpoints(root):
    writer, reader = CheckpointStore(root), CheckpointStore(root)
    assert reader.list() == []
    written = write(writer, 3)
    assert reader.latest() == written
    assert reader.read(written.path)[0]["step"] == 3
    write(reader, 4)
    assert steps(writer) == [3, 4]


def test_a_store_reads_checkpoints_of_another_root(root, tmp_path):
    written = write(CheckpointStore(str(tmp_path / "elsewhere")), 3)
    assert CheckpointStore(root).read(written.path)[0]["step"] == 3


def test_leftovers_are_ignored_and_pruned_by_the_next_write(root):
    store = CheckpointStore(root)
    written = write(store, 1)
    place = Place.of(store.root, "root")
    for step, names in ((2, []), (3, ["skeleton.pickle.tmp"]), (7, [*DATA_FILES])):
        left = place.child(f"step-{step:09d}")
        left.fs.makedirs(left.path)
        for name in names:
            left.fs.pipe_file(left.file(name), b"half")
    assert store.latest() == written
    assert steps(store) == [1]
    write(store, 3)
    assert directories(store) == ["step-000000001", "step-000000003.1"]


def test_a_deletion_that_was_cut_off_is_finished_by_the_next_write(tmp_path):
    store = CheckpointStore(str(tmp_path))
    (tmp_path / ".deleted-1").mkdir()
    write(store, 1)
    assert directories(store) == ["step-000000001"]


def test_a_leftover_that_turns_out_complete_stays(tmp_path, monkeypatch):
    store = CheckpointStore(str(tmp_path))
    first = write(store, 1)
    monkeypatch.setattr("raytide.train.checkpoint.is_leftover", lambda place: True)
    write(store, 2)
    assert first.load()["step"] == 1


def test_directories_of_others_are_never_pruned(root):
    store = CheckpointStore(root, keep=1)
    write(store, 1)
    place = Place.of(store.root, "root")
    for name in ("step-000000004", "step-000000001.bak", "logs"):
        foreign = place.child(name)
        foreign.fs.makedirs(foreign.path)
        foreign.fs.pipe_file(foreign.file("weights.bin"), b"precious")
    write(store, 4)
    assert {"step-000000004", "step-000000001.bak", "logs"} < set(directories(store))
    assert steps(store) == [4]


def test_a_marker_is_deleted_before_what_it_vouches_for(root, monkeypatch):
    store = CheckpointStore(root, keep=1)
    old = write(store, 1)
    seen = []
    filesystem = type(Place.of(root, "root").fs)
    remove = filesystem.rm

    def look(self: Any, path: str, *args: Any, **options: Any) -> None:
        if path.endswith("step-000000001"):
            seen.append(store.list())
        remove(self, path, *args, **options)

    monkeypatch.setattr(filesystem, "rm", look)
    new = write(store, 2)
    assert seen == [[new]]
    assert old not in store.list()


def test_a_checkpoint_that_cannot_be_deleted_is_no_failed_write(root, monkeypatch, caplog):
    store = CheckpointStore(root, keep=1)
    write(store, 1)

    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("raytide.train.checkpoint.delete", refuse)
    with caplog.at_level(logging.WARNING):
        new = write(store, 2)
    assert store.latest() == new
    assert "could not be deleted" in caplog.text


def test_load_model_reads_the_model_alone(root):
    registry = train(torch.optim.Adam)
    checkpoint = write(CheckpointStore(root), 1, registry.state())
    other = train(torch.optim.SGD, lr=0.1)
    model = next(iter(other))[1]
    with torch.no_grad():
        model[0].weight.zero_()
    checkpoint.load_model(model)
    assert_same(dict(model.state_dict()), capture(registry.state()["model0"]).value())


def test_load_model_finds_models_in_a_part_of_the_state(root):
    model = nn.Linear(2, 2)
    checkpoint = write(CheckpointStore(root), 1, {"objects": {"model0": {}, "model1": model.state_dict()}, "rng": 1})
    target = nn.Linear(2, 2)
    checkpoint.load_model(target, "model1")
    assert torch.equal(target.weight, model.weight)


@pytest.mark.parametrize("other", [nn.Linear(3, 2), nn.Linear(2, 2, bias=False), nn.Conv1d(2, 2, 1)])
def test_load_model_refuses_another_model_and_leaves_it_unchanged(root, other):
    checkpoint = write(CheckpointStore(root), 1, {"model0": nn.Linear(2, 2).state_dict()})
    before = {key: value.clone() for key, value in other.state_dict().items()}
    with pytest.raises(StateMismatch, match="model0"):
        checkpoint.load_model(other)
    assert_same(dict(other.state_dict()), before)


def test_load_model_names_what_there_is(root):
    checkpoint = write(CheckpointStore(root), 1, {"model0": {}, "optimizer0": {}})
    with pytest.raises(StateMismatch, match="'model1', but model0, optimizer0"):
        checkpoint.load_model(nn.Linear(1, 1), "model1")


def test_to_directory_copies_a_checkpoint_that_loads(root, tmp_path):
    checkpoint = write(CheckpointStore(root), 3)
    copied = Checkpoint(checkpoint.to_directory(tmp_path / "deep" / "copy"))
    assert_same(copied.load(), checkpoint.load())
    assert copied.meta == checkpoint.meta
    again = Checkpoint(write(CheckpointStore(root), 4).to_directory(copied.path))
    assert again.load()["step"] == 4


def test_to_directory_makes_one_of_its_own(root, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = write(CheckpointStore(root), 3).to_directory()
    assert Path(path).parent == tmp_path
    assert Checkpoint(path).load()["step"] == 3


def test_to_directory_names_where_it_could_not_write(root, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot be copied to .*file"):
        write(CheckpointStore(root), 3).to_directory(tmp_path / "file")


def test_checkpoints_are_values(root):
    a, b = Checkpoint("memory://x/step-1"), Checkpoint("memory://x/step-2")
    assert a == Checkpoint(a.path) == pickle.loads(pickle.dumps(a))
    assert a != b
    assert repr(a) == "Checkpoint(path='memory://x/step-1')"
    assert len({a, b, Checkpoint(a.path)}) == 2


# --- what goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("use", [Checkpoint.load, lambda c: c.meta, lambda c: c.load_model(nn.Linear(1, 1))])
@pytest.mark.parametrize("content", [None, "directory", "file", "foreign marker", "other json", "no json"])
def test_what_is_no_checkpoint_is_a_mismatch_with_path_and_remedy(tmp_path, content, use):
    path = tmp_path / "step-000000001"
    if content == "file":
        path.touch()
    elif content:
        path.mkdir()
        (path / "model.pt").touch()
    text = {"foreign marker": '{"format": 1}', "other json": "[1, 2]", "no json": "\x00"}.get(content)
    if text:
        (path / MARKER).write_text(text)
    with pytest.raises(StateMismatch, match=r"step-000000001.*another checkpoint"):
        use(Checkpoint(str(path)))


@pytest.mark.parametrize("name", DATA_FILES)
@pytest.mark.parametrize("damage", ["gone", "cut", "noise"])
def test_a_damaged_checkpoint_is_a_mismatch_with_path_and_remedy(tmp_path, name, damage):
    path = Path(write(CheckpointStore(str(tmp_path)), 1).path)
    data = (path / name).read_bytes()
    (path / name).unlink()
    if damage != "gone":
        (path / name).write_bytes(data[:-3] if damage == "cut" else b"\xff" * len(data))
    with pytest.raises(StateMismatch, match=r"step-000000001.*another checkpoint"):
        CheckpointStore(str(tmp_path)).read(str(path))


def test_a_newer_format_says_upgrade(root):
    store = CheckpointStore(root)
    written = store.write(capture({}), meta(format=2))
    with pytest.raises(StateMismatch, match="Upgrade raytide"):
        store.read(written.path)


def test_an_unreadable_checkpoint_is_no_mismatch(root, monkeypatch):
    checkpoint = write(CheckpointStore(root), 1)

    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(type(Place.of(root, "root").fs), "cat_file", refuse)
    with pytest.raises(CheckpointError, match="cannot be read: PermissionError: not yours"):
        checkpoint.load()


class Local:
    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'Local' object")


@pytest.mark.parametrize(
    ("value", "changes", "message"),
    [
        ({"state0": Local()}, {}, "cannot be pickled"),
        ({"state0": lambda: 1}, {}, "cannot be pickled"),
        ({}, {"extra": {"x": {1, 2}}}, "extra is not JSON"),
        ({}, {"metrics": {"loss": "low"}}, "metrics are no numbers"),
        ({"x": torch.ones(2, device="meta")}, {}, "could not be written"),
    ],
)
def test_what_cannot_be_written_is_one_clear_error_and_leaves_nothing(root, value, changes, message):
    store = CheckpointStore(root)
    before = write(store, 1)
    with pytest.raises(CheckpointError, match=message) as caught:
        store.write(capture(value), meta(2, **changes))
    assert store.root in str(caught.value)
    assert directories(store) == ["step-000000001"]
    assert store.latest() == before
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("call", range(2))
def test_an_error_of_storage_is_one_clear_error_and_leaves_nothing(root, call, monkeypatch):
    store = CheckpointStore(root)
    before = write(store, 1)
    seen = []
    filesystem = type(Place.of(root, "root").fs)
    open_, pipe = filesystem.open, filesystem.pipe_file

    def full(method: Any) -> Any:
        def refuse(self: Any, path: str, mode: Any = "rb", *args: Any, **options: Any) -> Any:
            if mode != "rb":
                seen.append(path)
                if len(seen) == call + 1:
                    raise OSError(28, "No space left on device")
            return method(self, path, mode, *args, **options)

        return refuse

    monkeypatch.setattr(filesystem, "open", full(open_))
    monkeypatch.setattr(filesystem, "pipe_file", full(pipe))
    with pytest.raises(CheckpointError, match="No space left on device"):
        write(store, 2)
    monkeypatch.undo()
    assert directories(store) == ["step-000000001"]
    assert store.latest() == before
    assert steps(store) == [1]


def test_another_writer_that_took_the_directory_is_noticed(root, monkeypatch):
    store = CheckpointStore(root)
    put = Place.put

    def pruned_meanwhile(self: Place, name: str, data: bytes) -> None:
        put(self, name, data)
        if name == DATA_FILES[0]:
            self.fs.rm_file(self.file(name))

    monkeypatch.setattr(Place, "put", pruned_meanwhile)
    with pytest.raises(CheckpointError, match="FileNotFoundError"):
        write(store, 2)
    assert store.list() == []


def test_check_writable_makes_the_directory_and_leaves_nothing_in_it(root):
    store = CheckpointStore(root)
    store.check_writable()
    store.check_writable()
    assert directories(store) == []


def test_check_writable_names_the_setting(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"RunConfig.storage_path.*file/run"):
        CheckpointStore(str(tmp_path / "file" / "run")).check_writable()


def test_writing_under_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="file/run"):
        write(CheckpointStore(str(tmp_path / "file" / "run")), 1)


@pytest.mark.parametrize("url", ["nosuch://bucket/run", "abfs://bucket/run"])
def test_unknown_filesystems_are_refused_at_once(url):
    with pytest.raises(ConfigError, match=r"RunConfig.storage_path.*filesystem is installed"):
        CheckpointStore(url)


def test_keeping_nothing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="num_to_keep"):
        CheckpointStore(str(tmp_path), keep=0)


def test_relative_paths_and_home_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert CheckpointStore("run/").root == str(tmp_path / "run")
    assert CheckpointStore("~/run").root == str(tmp_path / "home" / "run")
    assert Path(write(CheckpointStore("run"), 1).path).is_absolute()


def test_memory_urls_stay_urls():
    assert CheckpointStore("memory://bucket/run/").root == "memory:///bucket/run"
