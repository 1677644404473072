import pytest

from nmt.model.processor import keep_off_hidden_tiles

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


def test_a_machine_without_cpuinfo_is_no_obstacle(tmp_path):
    keep_off_hidden_tiles(tmp_path / "none", {})
