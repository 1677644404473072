"""Text out of archives: the wanted members, whole, and nothing else; or an error that names what is there."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from itertools import product
from pathlib import Path

import pytest

from nmt.corpus.archives import unpack
from nmt.errors import CorpusError

SGM = """<refset setid="x" trglang="de">
<doc docid="d" sysid="ref">
<hl>
<seg id="1">Eins &amp;  zwei</seg>
</hl>
<p>
<seg id="2"> &quot;Drei
\tvier&quot; &lt;f&uuml;nf&gt;</seg><SEG id=3>sechs&#10;sieben</SEG>
<seg id="4"></seg>
</p>
</doc>
</refset>
"""
LINES = 'Eins & zwei\n"Drei vier" <fünf>\nsechs sieben\n\n'


def tgz(path: Path, members: dict[str, bytes | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, bytes):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                tar.addfile(content)
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("pack", [tgz, zipped])
def test_only_the_wanted_members_are_written_where_they_are_wanted(pack, tmp_path: Path, out: Path):
    archive = pack(
        tmp_path / "x", {"./b/de": b"c\nd", "b/fr": b"no", "/etc/evil": b"no", "../evil": b"no", "b/en": b"a\n"}
    )
    name = "x.tgz" if pack is tgz else "x.zip"  # the name tells the kind: a mirror may call its file anything
    unpack(archive, name, {"b/en": out / "deep" / "en", "b/de": out / "de"})
    assert (out / "deep" / "en").read_bytes() == b"a\n" and (out / "de").read_bytes() == b"c\nd\n"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["de", "en", "x"]


@pytest.mark.parametrize("pack", [tgz, zipped])
@pytest.mark.parametrize("member", ["../evil", "/etc/evil", "a/../../evil"])
def test_a_path_that_leaves_the_folder_is_refused(pack, member: str, tmp_path: Path, out: Path):
    archive = pack(tmp_path / "x", {member: b"no"})
    with pytest.raises(CorpusError, match="leaves the folder"):
        unpack(archive, "x.tgz" if pack is tgz else "x.zip", {member: out / "text"})
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_a_member_of_a_tgz_that_is_no_file_is_refused(kind: bytes, tmp_path: Path, out: Path):
    info = tarfile.TarInfo("text")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(CorpusError, match="text is a link or a folder"):
        unpack(tgz(tmp_path / "x.tgz", {"text": info}), "x.tgz", {"text": out / "text"})


def test_a_member_of_a_zip_that_is_a_link_is_refused(tmp_path: Path, out: Path):
    link = zipfile.ZipInfo("text")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(CorpusError, match="text is a link or a folder"):
        unpack(tmp_path / "x.zip", "x.zip", {"text": out / "text"})


@pytest.mark.parametrize("pack", [tgz, zipped])
def test_missing_members_are_named_with_the_nearest(pack, tmp_path: Path, out: Path):
    archive = pack(tmp_path / "x", {"training/news.de-en.en": b"", "other": b""})
    with pytest.raises(CorpusError) as caught:
        unpack(archive, "x.tgz" if pack is tgz else "x.zip", {"news.de-en.en": out / "en", "news.de-en.de": out / "de"})
    assert "no news.de-en.de (nearest: training/news.de-en.en" in str(caught.value)
    assert "no news.de-en.en (nearest: training/news.de-en.en" in str(caught.value)


# An altered tgz is not in the list: it is the hash of the whole, checked before, that tells it.
@pytest.mark.parametrize(
    ("name", "damage"),
    [*product(("x.tgz", "x.zip", "x.txt.gz"), ("none of it", "cut")), ("x.zip", "altered"), ("x.txt.gz", "altered")],
)
def test_a_damaged_archive_is_refused_and_leaves_no_text(name: str, damage: str, tmp_path: Path, out: Path):
    content, archive = os.urandom(300_000), tmp_path / name
    member = None if name == "x.txt.gz" else "text"
    if member:
        (tgz if name == "x.tgz" else zipped)(archive, {"text": content})
    else:
        archive.write_bytes(gzip.compress(content))
    packed = bytearray(archive.read_bytes())
    packed[150_000] ^= 255
    archive.write_bytes({"none of it": b"not at it", "cut": bytes(packed[:150_000]), "altered": bytes(packed)}[damage])
    with pytest.raises(CorpusError, match=rf"{name}: cannot read {member or 'its content'}: "):
        unpack(archive, name, {member: out / "text"})
    assert not (out / "text").exists()


@pytest.mark.parametrize("name", ["x.sgm", "x.sgm.gz", "x.tgz", "x.zip"])
def test_sgm_becomes_its_segments_wherever_it_is(name: str, tmp_path: Path, out: Path):
    archive, member, packed = tmp_path / name, None, SGM.encode()
    if name in ("x.tgz", "x.zip"):
        member = "test/ref.de.sgm"
        (tgz if name == "x.tgz" else zipped)(archive, {member: packed})
    else:
        archive.write_bytes(gzip.compress(packed) if name.endswith(".gz") else packed)
    unpack(archive, name, {member: out / "text"})
    assert (out / "text").read_text(encoding="utf-8") == LINES
    unpack(archive, name, {member: out / "raw"}, text=False)
    assert (out / "raw").read_bytes() == packed


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zips_of_other_kinds_are_read_or_refused_too(method: int, tmp_path: Path, out: Path):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w", method) as packed:
        packed.writestr("text", "a line\n" * 9_000)
    unpack(archive, "x.zip", {"text": out / "text"})
    assert (out / "text").read_text() == "a line\n" * 9_000
    content = bytearray(archive.read_bytes())
    for place in range(40, 90):
        content[place] ^= 255
    archive.write_bytes(content)
    with pytest.raises(CorpusError, match=r"x.zip: cannot read text: "):
        unpack(archive, "x.zip", {"text": out / "other"})


@pytest.mark.parametrize(
    ("sgm", "told"),
    [
        ("<seg id=1>a</seg>\n<seg id=2>b", "ends inside segment 2"),
        ("<seg>a\n<seg>b</seg>", "segment 1 is not closed"),
        ("<seg>" + "on and on\n" * 20_000, "ends inside segment 1"),
    ],
)
def test_sgm_that_was_cut_is_refused(sgm: str, told: str, tmp_path: Path, out: Path):
    (tmp_path / "x.sgm").write_text(sgm)
    with pytest.raises(CorpusError, match=told):
        unpack(tmp_path / "x.sgm", "x.sgm", {None: out / "text"})
    assert not (out / "text").exists()


def test_text_stays_as_it_is_but_for_the_last_newline(tmp_path: Path, out: Path):
    for content in (b"", b"a\r\n\xff\xe2\x80\xa8", b"a\n"):
        (tmp_path / "x").write_bytes(content)
        unpack(tmp_path / "x", "x", {None: out / "text"})
        assert (out / "text").read_bytes() == content + (b"" if content.endswith(b"\n") or not content else b"\n")
