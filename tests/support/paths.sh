# Sourced by checks that leave the top of the tree: here, and the absolute paths qgrad and build, from QGRAD and BUILD.
here=$(pwd)
build=${BUILD:-build} qgrad=${QGRAD:-build/qgrad}
case $build in /*) ;; *) build=$here/$build ;; esac
case $qgrad in /*) ;; *) qgrad=$here/$qgrad ;; esac
