from meantime.stack.java.jars import spark_home
from meantime.stack.java.spark_home import passing_home, session_home


def test_sessions_have_a_home_with_spark_and_without_a_copy_of_pyspark(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path))
    home = session_home()
    assert (home / "bin" / "spark-submit").samefile(spark_home() / "bin" / "spark-submit")
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert not (home / "python").exists()


def test_a_home_that_was_begun_is_completed_and_one_that_is_whole_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path))
    home = session_home()
    (home / "jars").unlink()
    assert session_home() == home == session_home()
    assert (home / "jars").is_dir()


def test_a_home_for_executors_of_this_machine_is_no_other_processs():
    home = passing_home()
    assert home != passing_home()
    assert (home / "bin" / "spark-submit").samefile(spark_home() / "bin" / "spark-submit")
