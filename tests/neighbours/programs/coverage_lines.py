"""coverage.py: prints the lines and branches that it measured in rounds.py."""
import coverage

measured = coverage.Coverage(data_file=None, branch=True, include=["*rounds.py"])
measured.start()
import rounds  # noqa: E402

rounds.main()
measured.stop()
data = measured.get_data()
for file in data.measured_files():
    print(sorted(data.arcs(file)))
