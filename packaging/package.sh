#!/bin/sh
# package.sh pc NAME | cmake | cmake-version — writes a file for build systems to stdout, from VERSION, PREFIX, LIBDIR and
# LIBS, with paths relative to its own place where possible, so that an installation can be moved.
set -u
below=${LIBDIR#"$PREFIX"/}                      # "lib/x86_64-linux-gnu"; LIBDIR itself if it is elsewhere
[ "$below" = "$LIBDIR" ] && libdir=$LIBDIR || libdir=\${prefix}/$below

# libpng.a needs zlib.
pc() {
    case $1 in
    qgrad)       about='training of binary, ternary and low-bit neural networks' private="$LIBS -lz" ;;
    qgrad_infer) about='runs packed low-bit neural networks' private=-lm ;;
    esac
    cat <<PC
prefix=$PREFIX
libdir=$libdir
includedir=\${prefix}/include/qgrad

Name: $1
Description: $about
Version: $VERSION
Cflags: -I\${includedir}
Libs: -L\${libdir} -l$1 -lm
Libs.private: $private
PC
}

cmake() {
    if [ "$below" = "$LIBDIR" ]; then root=$PREFIX
    else root=\${CMAKE_CURRENT_LIST_DIR}/../../$(echo "$below" | sed 's,[^/][^/]*,..,g'); fi
    list() { echo "$*" | tr ' ' '\n' | sed -n 's/^-l//p; s/^\(-L.*\)/\1/p; s/^-pthread$/Threads::Threads/p' | tr '\n' ';' | sed 's/;$//'; }
    cat <<CMAKE
# find_package(qgrad) defines qgrad::qgrad and qgrad::qgrad_infer, and for static linking qgrad::qgrad_static and
# qgrad::qgrad_infer_static.  Without shared libraries the former are the latter.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
get_filename_component(_qgrad_root "$root" ABSOLUTE)
get_filename_component(_qgrad_lib "\${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

function(_qgrad_library name private)
    if(TARGET qgrad::\${name})
        return()
    endif()
    add_library(qgrad::\${name}_static STATIC IMPORTED)
    set_target_properties(qgrad::\${name}_static PROPERTIES
        IMPORTED_LOCATION "\${_qgrad_lib}/lib\${name}.a"
        INTERFACE_INCLUDE_DIRECTORIES "\${_qgrad_root}/include/qgrad"
        INTERFACE_LINK_LIBRARIES "\${private}")
    if(EXISTS "\${_qgrad_lib}/lib\${name}.so")
        add_library(qgrad::\${name} SHARED IMPORTED)
        set_target_properties(qgrad::\${name} PROPERTIES
            IMPORTED_LOCATION "\${_qgrad_lib}/lib\${name}.so"
            INTERFACE_INCLUDE_DIRECTORIES "\${_qgrad_root}/include/qgrad")
    else()
        add_library(qgrad::\${name} INTERFACE IMPORTED)
        set_target_properties(qgrad::\${name} PROPERTIES INTERFACE_LINK_LIBRARIES qgrad::\${name}_static)
    endif()
endfunction()

_qgrad_library(qgrad "$(list "$LIBS")")
_qgrad_library(qgrad_infer "m")
CMAKE
}

# Versions before 1.0 are compatible within a minor version.
cmake_version() {
    cat <<CMAKE
set(PACKAGE_VERSION "$VERSION")
string(REGEX MATCH "^[0-9]+\\\\.[0-9]+" _qgrad_have "\${PACKAGE_VERSION}")
string(REGEX MATCH "^[0-9]+\\\\.[0-9]+" _qgrad_want "\${PACKAGE_FIND_VERSION}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION OR (_qgrad_want AND NOT _qgrad_want STREQUAL _qgrad_have))
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
    if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
        set(PACKAGE_VERSION_EXACT TRUE)
    endif()
endif()
CMAKE
}

case ${1-} in
pc)            pc "$2" ;;
cmake)         cmake ;;
cmake-version) cmake_version ;;
*)             echo "usage: $0 pc NAME | cmake | cmake-version" >&2; exit 2 ;;
esac
