def test_it(spark):
    assert spark.range(10).mapInArrow(lambda it: it, "id long").count() == 10
