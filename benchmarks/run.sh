#!/usr/bin/env bash
# Runs the measurements behind the figures of the documentation: run.sh [disk|network|write|read|service …]. `make bench` runs all of
# them, after it has built the programs in target/dist and the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
python=target/benchmarks/env/bin/python
files=target/benchmarks/files
binary=target/dist/virtualize
server=target/dist/examples/range_server

[ $# -gt 0 ] || set -- disk network write read service
benchmarks/setup.sh
for part; do
    echo "== $part"
    case $part in
    disk)
        $python benchmarks/time/files.py $files
        $python benchmarks/time/run.py $binary $files
        ;;
    # Other tools at the first network only.
    network)
        $python benchmarks/time/files.py $files
        $python benchmarks/time/run.py $binary $files --server $server --network 30,50
        $python benchmarks/time/run.py $binary $files --server $server --network 5,200 100,20 --no-peers
        ;;
    write) $python benchmarks/time/scale.py ;;
    read)
        bash crates/python/tests/setup.sh target/wheels/*.whl
        target/python/bin/python benchmarks/read.py --server $server
        ;;
    service)
        load=("$python" benchmarks/service/load.py "$binary" fixtures)
        small=(hdf5/chunked.h5 hdf5/netcdf4.nc tiff/cog.tif)
        "${load[@]}" "${small[@]}" --clients 200 --seconds 10
        "${load[@]}" "${small[@]}" --clients 1000 --seconds 30 --wrk --strict --memory=256M
        "${load[@]}" --nginx --clients 16 --seconds 10
        .env/bin/python benchmarks/service/first_picture.py $binary
        ;;
    *)
        echo "run.sh: unknown part $part" >&2
        exit 2
        ;;
    esac
done
