"""What the tests of the Python package share."""
import os
import sys
import traceback

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(root, "python"))


def refuses(error, part, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error as e:
        assert part in str(e), e
    else:
        raise AssertionError("not refused: %s" % part)


def run_tests(functions):
    """Runs what is called test_..; ends with "N passed, M failed"."""
    passed = failed = 0
    for name, test in sorted(functions.items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print(name)
            traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)
