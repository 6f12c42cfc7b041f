# qgrad — make demo | test | mutants | check-originals | check-training | all | deps | data | bench | torch | asan | install | format
#
# Everything is built in $(BUILD).  CC, CFLAGS, CPPFLAGS, LDFLAGS and PREFIX are honoured.

CC      ?= cc
PREFIX  ?= /usr/local
DESTDIR ?=
BUILD   ?= build
WERROR  ?=
V       ?=
SANITIZE ?=

# `make V=1` shows whole commands.
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $@;)
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
CFLAGS   ?= -O3 -g
# Neither flag changes a result: they say that nobody reads errno or the exception flags.
FP       := -fno-math-errno -fno-trapping-math
BLAS_INC := $(shell pkg-config --cflags-only-I openblas 2>/dev/null)
BLAS_LIB := $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas)

override CPPFLAGS += -I. -D_POSIX_C_SOURCE=200809L
override CFLAGS   += -std=c11 $(WARNINGS) $(WERROR) $(FP) -pthread $(SANITIZE)
override LDFLAGS  += $(SANITIZE)
LIBS     := $(BLAS_LIB) -lpng -ljpeg -lm

# Files named *_kernel.c are compiled once per instruction set and chosen at run time (core/kernels/cpu.h).
ISAS := baseline
ifneq (,$(filter x86_64 amd64,$(shell uname -m)))
ISAS += avx2 avx512
endif
ISA_baseline :=
ISA_avx2     := -mavx2 -mfma
# For tests: the tiles of AVX-512 where the machine has only AVX2.
ISA_sixteen  := -mavx2 -mfma -DQG_SIXTEEN_LANES
ISA_avx512   := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mprefer-vector-width=512

ROOMS   := core core/ops core/kernels core/io quant quant/schemes quant/reference layers layers/models optim datasets
KERNELS := $(wildcard core/kernels/*_kernel.c quant/*_kernel.c optim/*_kernel.c)
LIB_SRC := $(filter-out $(KERNELS),$(wildcard $(foreach room,$(ROOMS),$(room)/*.c)))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(foreach isa,$(ISAS),$(KERNELS:%.c=$(BUILD)/%.$(isa).o))
CLI_KERNELS := $(wildcard cli/bench/*_kernel.c)
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(CLI_KERNELS),$(wildcard cli/*.c cli/*/*.c))) \
           $(foreach isa,$(ISAS),$(CLI_KERNELS:%.c=$(BUILD)/%.$(isa).o))
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
# tests/ mirrors the rooms; support, originals and peer hold no programs of their own.
TESTS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/test_*.c) tests/quant/conformance.c)
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/*.c))
TRAINING := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/originals/training/*_mnist.c))

.DEFAULT_GOAL := all
.PHONY: all deps demo test mutants docs check asan bench torch check-originals check-training data examples install format clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/qgrad $(BUILD)/libqgrad.a $(BUILD)/cifar_sheets

$(BUILD)/libqgrad.a: $(LIB_OBJ)
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^

$(BUILD)/qgrad: $(CLI_OBJ) $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# What datasets/fetch.sh needs beside curl and npm.
$(BUILD)/cifar_sheets: $(BUILD)/datasets/tools/cifar_sheets.o $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
# Which source this is, for the record of a run: the object that says so is compiled again when the
# answer changes.  `unknown` where this tree is not itself under git.
SOURCES := core quant optim layers datasets cli qgrad.h Makefile
$(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@{ git ls-files --error-unmatch qgrad.h >/dev/null 2>&1 && \
	   printf '%s%s\n' "$$(git rev-parse --short=12 HEAD)" \
	       "$$(test -z "$$(git status --porcelain -- $(SOURCES))" || echo -dirty)" || echo unknown; } > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:
$(BUILD)/cli/commit.o: $(BUILD)/commit
$(BUILD)/cli/commit.o: override CPPFLAGS += -DQGRAD_COMMIT=\"$$(cat $(BUILD)/commit)\"

# Contraction makes a*b+c one rounding.  The multiply-add loops of core's kernels and of bench peak need it to reach
# the machine's FMA units; everywhere else it would change the last bit of a quantizer.
CONTRACT = $(if $(filter core/%_kernel.c cli/%_kernel.c,$<),-ffp-contract=fast,-ffp-contract=off)

# The flags are in the Makefile, and a record must not name a commit that other flags belong to.
$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(BLAS_INC) $(CFLAGS) $(CONTRACT) -MMD -MP -c -o $@ $<

define ISA_RULE
$$(BUILD)/%.$(1).o: %.c Makefile
	@mkdir -p $$(@D)
	$$(call say,CC)$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(CONTRACT) $$(ISA_$(1)) -DQG_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS) sixteen,$(eval $(call ISA_RULE,$(isa))))

# For Python: the library, the spelling of schemes and tests/originals/flat.c.  Objects need -fPIC.
$(BUILD)/libqgrad_flat.so: $(LIB_OBJ) $(filter-out %/main.o,$(CLI_OBJ)) $(BUILD)/tests/originals/flat.o
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ $^ $(LIBS)

LDFLAGS_test_heap := $(foreach f,malloc calloc realloc aligned_alloc posix_memalign,-Wl,--wrap=$(f))
LDFLAGS_test_heap_net := $(LDFLAGS_test_heap)
LDFLAGS_test_exhausted := $(LDFLAGS_test_heap) -Wl,--wrap=strdup
ifneq (,$(filter avx2,$(ISAS)))
$(BUILD)/tests/core/test_conv_kernel: $(patsubst %,$(BUILD)/core/kernels/%.sixteen.o,conv_kernel conv_weight_kernel winograd_kernel)
endif
# By a clock of their own (tests/support/clock.h), with the program inside.
CLOCKED := test_cli_train test_cli_resume test_cli_schemes test_cli_data test_bench
$(foreach test,$(CLOCKED),$(eval LDFLAGS_$(test) := -Wl,--wrap=clock_gettime))
LDFLAGS_test_cli_train += -Wl,--wrap=rename -Wl,--wrap=write
LDFLAGS_test_safetensors := -Wl,--wrap=qg_reader_take
LDFLAGS_test_file := -Wl,--wrap=rename -Wl,--wrap=fsync
$(TRAINING): $(BUILD)/tests/originals/training/steps.o
$(patsubst %,$(BUILD)/tests/cli/%,test_config $(CLOCKED)): $(filter-out %/main.o,$(CLI_OBJ))
# An archive: a test takes what it needs of it.
$(BUILD)/tests/support.a: $(SUPPORT)
	$(call say,AR)rm -f $@; $(AR) rcs $@ $^
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/tests/support.a $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) $(LDFLAGS_$(@F)) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka -lcjson $(LIBS) -lz

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(BUILD)/libqgrad.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

examples: $(EXAMPLES)

# --- what it stands on ---------------------------------------------------------------------------

PROBE := '\#include <cblas.h>\n\#if __has_include(<stb/stb_image.h>)\n\#include <stb/stb_image.h>\n\#else\n\#include <stb_image.h>\n\#endif\n\#include <stdio.h>\n\#include <jpeglib.h>\n\#include <png.h>\n\#include <zlib.h>\n\#include <stdarg.h>\n\#include <stddef.h>\n\#include <stdint.h>\n\#include <setjmp.h>\n\#include <cmocka.h>\n\#include <cjson/cJSON.h>\nint main(void) { return openblas_get_num_threads() < 0 || !*zlibVersion() || !png_access_version_number() || !jpeg_std_error(0); }\n'
DEBIAN := build-essential pkg-config libopenblas-dev libpng-dev libjpeg-dev libstb-dev zlib1g-dev libcmocka-dev libcjson-dev curl ca-certificates

# Silent when everything is there.
deps:
	@printf $(PROBE) | $(CC) $$(pkg-config --cflags-only-I openblas 2>/dev/null) -x c -o /dev/null - $(BLAS_LIB) -lpng -ljpeg -lz -lcmocka -lcjson 2>/dev/null && exit 0; \
	if command -v apt-get >/dev/null; then \
		sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		echo "installing $(DEBIAN)"; \
		$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $(DEBIAN) >/dev/null; \
	else \
		echo "qgrad needs a C compiler, OpenBLAS, libpng, libjpeg-turbo, stb, zlib, cmocka and cJSON.  Install one of"; \
		echo "  dnf install gcc make pkgconf-pkg-config openblas-devel libpng-devel libjpeg-turbo-devel stb_image-devel zlib-devel libcmocka-devel cjson-devel curl"; \
		echo "  pacman -S base-devel openblas libpng libjpeg-turbo stb zlib cmocka cjson curl"; \
		echo "  brew install pkg-config openblas libpng jpeg-turbo zlib cmocka cjson   (and stb_image.h in the include path)"; \
		exit 1; \
	fi

# --- run it --------------------------------------------------------------------------------------

# OpenBLAS takes its kernels from the CPU unless these say otherwise, and they may halve its speed.
NATIVE_BLAS := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE
# As many jobs as cores, unless -j was given.
SUB = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN))

data: deps
	@sh datasets/fetch.sh mnist

# After deps, so that what it installed is found: the flags above are worked out when make starts.
demo: deps
	+@$(SUB) all
	@data=mnist; sh datasets/fetch.sh mnist || { data=sample; \
		echo "no MNIST and no network: this run uses the 2,000 images of datasets/sample instead"; }; \
	$(NATIVE_BLAS) $(BUILD)/qgrad train --config examples/recipes/demo.toml --data $$data --out runs/demo --force

test: deps
	+@$(SUB) WERROR=-Werror all examples $(TESTS) $(TRAINING)
	@CC="$(CC)" sh tests/run.sh $(BUILD)

# The mistakes that tests/mutants seeds, and the tests that notice.
mutants: deps
	@sh tests/mutants.sh

# What is written from the program: the texts of the schemes.
docs: $(BUILD)/qgrad
	@$(BUILD)/qgrad explain --markdown > docs/schemes.md.new && mv docs/schemes.md.new docs/schemes.md

# About forty minutes on an idle machine; `make bench BENCH="--rows LeNet --rounds 1"` is quicker.  PyTorch is
# measured in the same run: Debian's if PYTHON has it (python3-torch), and the current one if there is an
# environment with it, from `make torch` or of the originals.
PYTHON  ?= /usr/bin/python3
BENCH   ?=
CURRENT  = $(firstword $(wildcard $(BUILD)/torch/bin/python3 $(BUILD)/originals/bin/python3) $(BUILD)/torch/bin/python3)
bench: deps
	+@$(SUB) all $(BUILD)/examples/cost
	@$(PYTHON) tests/bench.py --peer $(PYTHON) --peer $(CURRENT) --qgrad $(BUILD)/qgrad --cost $(BUILD)/examples/cost \
		--out $(BUILD)/bench.md $(BENCH)

# The current PyTorch, in an environment of its own of several gigabytes.
torch:
	@$(PYTHON) -m venv $(BUILD)/torch && $(BUILD)/torch/bin/pip install --quiet torch numpy

# The implementations that the operators are named after, asked themselves: docs/exactness.md.  They come into
# a Python environment of several gigabytes; ORIGINALS=DIR takes one that is there.  CHECK="--only torch" asks
# one of them, CHECK="--write docs/exactness.md" writes the table.
ORIGINALS        ?= $(BUILD)/originals
ORIGINALS_PYTHON ?= python3
CHECK            ?=
check-originals: deps
	+@$(SUB) BUILD=$(BUILD)/originals-lib CFLAGS="$(CFLAGS) -fPIC" $(BUILD)/originals-lib/libqgrad_flat.so
	@PYTHON="$(ORIGINALS_PYTHON)" sh tests/originals/run.sh $(ORIGINALS) $(BUILD)/originals-lib/libqgrad_flat.so $(CHECK)

# The first losses of Larq's and Brevitas' MNIST examples, trained by them and by qgrad from the same weights
# (docs/training-parity.md), by the Python of an environment that has both.
SEEDS ?= 5
check-training: data
	+@$(SUB) $(TRAINING)
	@python=$(ORIGINALS)/bin/python3; \
	[ -x $$python ] || { echo "no $$python with Larq and Brevitas"; exit 1; }; \
	status=0; \
	for script in "larq_mnist.py" "brevitas_mnist.py" "brevitas_mnist.py --eps 1e-4"; do \
		$$python tests/originals/training/$$script --programs $(BUILD)/tests/originals/training --seeds $(SEEDS) || status=1; \
	done; exit $$status

asan: deps
	+@$(SUB) BUILD=build/asan SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" CFLAGS="-O2 -g1" test

clean:
	rm -rf $(BUILD)

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include/qgrad
	install -m 755 $(BUILD)/qgrad $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(BUILD)/libqgrad.a $(DESTDIR)$(PREFIX)/lib/
	for h in $$($(CC) -I. -MM qgrad.h | tr ' \\' '\n\n' | grep '\.h$$'); do \
		install -D -m 644 $$h $(DESTDIR)$(PREFIX)/include/qgrad/$$h; done
	printf 'prefix=%s\nName: qgrad\nDescription: quantized neural network training\nVersion: %s\nCflags: -I$${prefix}/include/qgrad\nLibs: -L$${prefix}/lib -lqgrad %s\n' \
		'$(PREFIX)' "$$(sed -n 's/.*QGRAD_VERSION "\(.*\)"/\1/p' qgrad.h)" '$(LIBS) -pthread' \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/qgrad.pc

-include $(shell find $(BUILD) -path $(BUILD)/originals -prune -o -name '*.d' -print 2>/dev/null)
