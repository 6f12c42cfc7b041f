# qgrad — make demo | test | all | deps | data | bench | asan | install | format
#
# Everything is built in $(BUILD).  CC, CFLAGS, CPPFLAGS, LDFLAGS and PREFIX are honoured.

CC      ?= cc
PREFIX  ?= /usr/local
DESTDIR ?=
BUILD   ?= build
WERROR  ?=
SANITIZE ?=

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
CFLAGS   ?= -O3 -g
# Neither flag changes a result: they say that nobody reads errno or the exception flags.
FP       := -fno-math-errno -fno-trapping-math
OPENMP   := $(shell printf 'int main(void){return 0;}' | $(CC) -fopenmp -x c -o /dev/null - 2>/dev/null && echo -fopenmp)
BLAS_INC := $(shell pkg-config --cflags-only-I openblas 2>/dev/null)
BLAS_LIB := $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas)

override CPPFLAGS += -I. -D_POSIX_C_SOURCE=200809L
override CFLAGS   += -std=c11 $(WARNINGS) $(WERROR) $(FP) $(OPENMP) $(SANITIZE)
override LDFLAGS  += $(SANITIZE)
LIBS     := $(BLAS_LIB) -lm

# Files named *_kernel.c are compiled once per instruction set and chosen at run time (core/cpu.h).
ISAS := baseline
ifneq (,$(filter x86_64 amd64,$(shell uname -m)))
ISAS += avx2 avx512
endif
ISA_baseline :=
ISA_avx2     := -mavx2 -mfma
ISA_avx512   := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mprefer-vector-width=512

KERNELS := $(wildcard core/*_kernel.c quant/*_kernel.c optim/*_kernel.c)
LIB_SRC := $(filter-out $(KERNELS),$(wildcard core/*.c quant/*.c layers/*.c layers/models/*.c optim/*.c datasets/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(foreach isa,$(ISAS),$(KERNELS:%.c=$(BUILD)/%.$(isa).o))
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard cli/*.c))
SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
TESTS   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/*.c))
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/*.c))

.DEFAULT_GOAL := all
.PHONY: all deps demo test check asan bench data examples install format clean
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/qgrad $(BUILD)/libqgrad.a

$(BUILD)/libqgrad.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/qgrad: $(CLI_OBJ) $(BUILD)/libqgrad.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Contraction makes a*b+c one rounding.  The multiply-add loops of core's kernels need it to reach
# the machine's FMA units; everywhere else it would change the last bit of a quantizer.
CONTRACT = $(if $(filter core/%_kernel.c,$<),-ffp-contract=fast,-ffp-contract=off)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(BLAS_INC) $(CFLAGS) $(CONTRACT) -MMD -MP -c -o $@ $<

define ISA_RULE
$$(BUILD)/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(CONTRACT) $$(ISA_$(1)) -DQG_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call ISA_RULE,$(isa))))

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT) $(BUILD)/libqgrad.a
	$(CC) $(CFLAGS) $(LDFLAGS) $(LDFLAGS_$*) -o $@ $(filter %.o %.a,$^) -lcmocka -lcjson $(LIBS)

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(BUILD)/libqgrad.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

examples: $(EXAMPLES)

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
