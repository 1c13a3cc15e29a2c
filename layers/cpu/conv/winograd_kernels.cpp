// One copy of the loops for every set of instructions. Not by target_clones: those follow the
// processor, while these follow what oneDNN is allowed to use (DNNL_MAX_CPU_ISA).
#include "layers/cpu/conv/winograd_kernels.hpp"

#include "layers/cpu/conv/winograd_loops.hpp"
#include "layers/cpu/conv/winograd_tiles.hpp"

// Attributes and declarations are no expressions.
// NOLINTBEGIN(bugprone-macro-parentheses)

// Instances for a set of instructions: the loops become part of them.
#define COHORT_WINOGRAD_LEVEL(NAME, TARGET, LANES, ROWS)                                         \
    struct NAME {                                                                                \
        TARGET static void product(const WinogradProduct& p, const float* a, const float* b,     \
                                   float* to) {                                                  \
            winograd::product<LANES, false, ROWS>(p, a, b, to);                                  \
        }                                                                                        \
        TARGET static void transposed_product(const WinogradProduct& p, const float* a,          \
                                              const float* b, float* to) {                       \
            winograd::product<LANES, true, ROWS>(p, a, b, to);                                   \
        }                                                                                        \
        template <class Tile>                                                                    \
        TARGET static void source(const WinogradImage& image, const WinogradTiles& tiles,        \
                                  const float* from, const WinogradOperand& to) {                \
            winograd::source<LANES, Tile>(image, tiles, from, to);                               \
        }                                                                                        \
        template <class Tile>                                                                    \
        TARGET static void gradient(const WinogradImage& image, const WinogradTiles& tiles,      \
                                    const float* from, const WinogradOperand& to, float* sums) { \
            winograd::gradient<LANES, Tile>(image, tiles, from, to, sums);                       \
        }                                                                                        \
        template <class Tile>                                                                    \
        TARGET static void output(const WinogradImage& image, const WinogradTiles& tiles,        \
                                  const WinogradOperand& from, std::int64_t channel,             \
                                  const float* bias, float* to) {                                \
            winograd::output<LANES, Tile>(image, tiles, from, channel, bias, to);                \
        }                                                                                        \
        template <class Tile>                                                                    \
        TARGET static void weights(const WinogradWeights& shape, std::int64_t output,            \
                                   const float* from, const WinogradOperand& to) {               \
            winograd::weights<LANES, Tile>(shape, output, from, to);                             \
        }                                                                                        \
        template <class Tile>                                                                    \
        TARGET static void weight_gradient(std::int64_t inputs, const WinogradOperand& from,     \
                                           bool adds, float* to) {                               \
            winograd::weight_gradient<LANES, Tile>(inputs, from, adds, to);                      \
        }                                                                                        \
        template <class Tile>                                                                    \
        static const WinogradKernels& kernels() {                                                \
            static constexpr WinogradKernels kKernels{                                           \
                2 * (LANES),           ROWS,                                                     \
                Tile::kOutput,         Tile::kPoints * Tile::kPoints,                            \
                source<Tile>,          gradient<Tile>,                                           \
                output<Tile>,          weights<Tile>,                                            \
                weight_gradient<Tile>, product,                                                  \
                transposed_product};                                                             \
            return kKernels;                                                                     \
        }                                                                                        \
    }

namespace cohort {
namespace {

COHORT_WINOGRAD_LEVEL(Sse, , 4, 6);
#if defined(__x86_64__) && defined(__GNUC__)
COHORT_WINOGRAD_LEVEL(Avx, __attribute__((target("avx"))), 8, 6);
COHORT_WINOGRAD_LEVEL(Avx2, __attribute__((target("avx2,fma"))), 8, 6);
COHORT_WINOGRAD_LEVEL(Avx512, __attribute__((target("avx512f,avx2,fma"))), 16, 8);
#endif
#undef COHORT_WINOGRAD_LEVEL

template <class Tile>
const WinogradKernels& kernels_of(VectorLevel level) {
#if defined(__x86_64__) && defined(__GNUC__)
    switch (level) {
        case VectorLevel::kAvx512: return Avx512::kernels<Tile>();
        case VectorLevel::kAvx2: return Avx2::kernels<Tile>();
        case VectorLevel::kAvx: return Avx::kernels<Tile>();
        case VectorLevel::kSse: break;
    }
#endif
    return Sse::kernels<Tile>();
}

}  // namespace

const WinogradKernels& winograd_kernels(WinogradTile tile, VectorLevel level) {
    return tile == WinogradTile::kF4 ? kernels_of<TileOf4>(level) : kernels_of<MapOf2>(level);
}

}  // namespace cohort
// NOLINTEND(bugprone-macro-parentheses)
