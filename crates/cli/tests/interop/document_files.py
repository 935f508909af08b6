"""What pages name in `<!-- setup: … -->`: files, and a bucket on loopback."""
import os, shutil, socket, subprocess, sys, time, urllib.request

import numpy as np

from documents import ROOT

KEYS = {"AWS_ACCESS_KEY_ID": "the-key", "AWS_SECRET_ACCESS_KEY": "the-secret", "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}


def days(folder, count=6):
    """Writes files of a day each: hourly temperatures on a small grid, packed as ERA5 packs them."""
    import h5netcdf
    folder.mkdir(parents=True)
    for k in range(count):
        with h5netcdf.File(folder / f"2024-01-{k + 1:02}.nc", "w") as f:
            f.dimensions = {"time": 24, "latitude": 8, "longitude": 16}
            for name, values, units in [("time", np.arange(24) + 24 * k, "hours since 2024-01-01"), ("latitude", np.linspace(70, -70, 8), "degrees_north"),
                                        ("longitude", np.arange(16) * 22.5, "degrees_east")]:
                f.create_variable(name, (name,), data=values.astype("i4" if name == "time" else "f8")).attrs["units"] = units
            values = np.random.default_rng(k).integers(-3000, 3000, (24, 8, 16), "i2")
            t2m = f.create_variable("t2m", ("time", "latitude", "longitude"), data=values, chunks=(24, 8, 16), compression="gzip")
            t2m.attrs.update(units="K", scale_factor=np.float64(0.01), add_offset=np.float64(280.0))


def files(session):
    """`granule.nc`, `scene.tif` and the days `era5/2024-01-01.nc` … in the page's folder."""
    shutil.copy(ROOT / "fixtures/hdf5/netcdf4.nc", session.folder / "granule.nc")
    shutil.copy(ROOT / "fixtures/tiff/cog.tif", session.folder / "scene.tif")
    days(session.folder / "era5")


def s3(session):
    """A bucket `s3://bucket/` with the same files. Endpoint and credentials are in the environment, as on a configured machine."""
    import boto3
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            urllib.request.urlopen(endpoint).close()
            break
        except OSError:
            time.sleep(0.1)
    session.env |= {**KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="the-key", aws_secret_access_key="the-secret", region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    made = session.top / "bucket"
    days(made / "era5")
    shutil.copy(ROOT / "fixtures/hdf5/netcdf4.nc", made / "granule.nc")
    shutil.copy(ROOT / "fixtures/tiff/cog.tif", made / "scene.tif")
    for path in made.rglob("*.*"):
        client.upload_file(str(path), "bucket", path.relative_to(made).as_posix(), ExtraArgs={"ACL": "public-read"})

    def stop():
        server.terminate()
        server.wait()
    return stop


SETUPS = {"files": files, "s3": s3}
