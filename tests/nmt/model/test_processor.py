import pytest

from nmt.config import TrainSettings
from nmt.model.processor import is_fast_in_bfloat16, keep_off_hidden_tiles, settled

LIMIT = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_FP16"}


@pytest.mark.parametrize(
    ("level", "flags", "set_to"),
    [
        (28, "fpu avx512_bf16 amx_bf16 amx_tile", LIMIT),  # as Firecracker shows a Sapphire Rapids
        (32, "fpu avx512_bf16 amx_bf16 amx_tile", {}),  # as it is
        (28, "fpu avx512_bf16", {}),
    ],
)
def test_amx_is_left_alone_only_where_its_tiles_are_not_described(tmp_path, level, flags, set_to):
    processor = f"processor\t: 0\ncpuid level\t: {level}\nflags\t\t: {flags}\n\n"
    (tmp_path / "cpuinfo").write_text(2 * processor)
    env = {}
    keep_off_hidden_tiles(tmp_path / "cpuinfo", env)
    assert env == set_to


def test_what_the_user_has_set_stays(tmp_path):
    (tmp_path / "cpuinfo").write_text("cpuid level\t: 28\nflags\t: amx_tile\n")
    env = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    keep_off_hidden_tiles(tmp_path / "cpuinfo", env)
    assert env == {"ONEDNN_MAX_CPU_ISA": "AVX2"}


@pytest.mark.parametrize(
    ("vendor", "level", "flags", "fast"),
    [
        ("AuthenticAMD", 16, "fpu avx512f avx512_bf16", True),  # Zen 4
        ("AuthenticAMD", 16, "fpu avx2", False),
        ("GenuineIntel", 32, "fpu avx512_bf16 amx_bf16 amx_tile", True),
        ("GenuineIntel", 28, "fpu avx512_bf16 amx_bf16 amx_tile", False),  # its tiles hidden
        ("GenuineIntel", 27, "fpu avx512_bf16", False),  # Cooper Lake
    ],
)
def test_bfloat16_is_fast_on_amx_and_on_amd(tmp_path, vendor, level, flags, fast):
    processor = f"processor\t: 0\nvendor_id\t: {vendor}\ncpuid level\t: {level}\nflags\t\t: {flags}\n\n"
    (tmp_path / "cpuinfo").write_text(2 * processor)
    assert is_fast_in_bfloat16(tmp_path / "cpuinfo") is fast


@pytest.mark.parametrize(
    ("settings", "gpu", "here"),
    [
        ({}, False, "bfloat16"),
        ({"precision": "float32"}, False, "float32"),
        ({"precision": "float16"}, True, "float16"),
        ({}, True, "float32"),
        ({"xla": True}, False, "float32"),
        ({"products": "highest"}, False, "float32"),
    ],
)
def test_auto_is_bfloat16_only_where_it_is_the_fast_way(tmp_path, monkeypatch, settings, gpu, here):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    (tmp_path / "zen4").write_text("vendor_id\t: AuthenticAMD\nflags\t: avx512_bf16\n")
    (tmp_path / "amx").write_text("vendor_id\t: GenuineIntel\ncpuid level\t: 32\nflags\t: avx512_bf16 amx_bf16\n")
    (tmp_path / "older").write_text("vendor_id\t: AuthenticAMD\nflags\t: avx2\n")
    asked, elsewhere = TrainSettings(**settings), settings.get("precision", "float32")
    assert settled(asked, gpu, tmp_path / "zen4").precision == here
    assert settled(asked, gpu, tmp_path / "older").precision == elsewhere
    assert settled(asked, gpu, tmp_path / "amx").precision == elsewhere
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert settled(asked, gpu, tmp_path / "zen4").precision == elsewhere


def test_a_machine_without_cpuinfo_is_no_obstacle(tmp_path):
    keep_off_hidden_tiles(tmp_path / "none", {})
    assert not is_fast_in_bfloat16(tmp_path / "none")
