#pragma once

#include "cohort/core/words.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/data/sample_source.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

enum class ImportFormat {
    kAuto,      ///< from file names, else from first bytes
    kIdx,       ///< MNIST-style IDX files, plain or .gz
    kCifar10,   ///< binary version: data_batch_*.bin, test_batch.bin
    kCifar100,  ///< binary version: train.bin, test.bin; fine labels
    kNpy,       ///< pairs of NumPy arrays, .npy files or within .npz: samples and labels or targets
    kCsv,       ///< a label column or columns of targets, and numbers
    kFolder,    ///< images in a folder per class; never kAuto's choice
    kText       ///< text in UTF-8, cut into windows of tokens; never kAuto's choice
};

template <>
inline constexpr auto kWords<ImportFormat> = std::to_array<std::string_view>(
    {"auto", "idx", "cifar10", "cifar100", "npy", "csv", "folder", "text"});

struct ImportOptions {
    ImportFormat format = ImportFormat::kAuto;
    /// One folder, or files. In a folder the files of the format are taken, by name or, when the
    /// name tells nothing, by first bytes; the log names the others. A known set (CIFAR, pairs of
    /// IDX files) must be complete there. A file whose name has the word `test`, `t10k` or `val`
    /// goes to the test group, all others to train. Samples and labels are paired by name:
    /// `images`, `samples`, `data` or `x` against `labels`, `targets` or `y`.
    std::vector<std::string> inputs;
    std::string output;               ///< the .h5 file; see check_output
    bool overwrite = false;           ///< an existing `output` is replaced, by a whole file
    std::vector<std::int64_t> shape;  ///< sample shape [C,H,W] or [F] to store; empty: as found
    std::int64_t classes = 0;         ///< 0: the largest label plus one
    std::int64_t chunk_samples = 0;   ///< 0: see DatasetSpec
    int compress_level = 0;           ///< gzip 1..9, 0 for none
    /// Share of the train samples, in (0,1), that goes to the test group instead, when no input is
    /// a test file: exactly that share, of each class alike, drawn from `seed`; of text the end of
    /// it. 0: test files are needed.
    double test_fraction = 0.0;
    std::uint64_t seed = 0;
    /// Folder: height and width to which images are brought; else all must agree.
    std::optional<std::pair<std::int64_t, std::int64_t>> size;
    /// CSV: the label's column, by name in the header or by number from 0.
    std::string label_column = "0";
    /// CSV: columns of targets, by name or by number, in place of the label's column.
    std::vector<std::string> target_columns;
    /// NumPy, CSV: integer labels, or the label's column, are targets: numbers to predict.
    bool regression = false;
    // Text.
    std::string tokens = "words";  ///< words, bytes, or the path of a tokenizer.json
    std::int64_t vocabulary = 0;   ///< words in the vocabulary, at most; 0: no limit
    std::int64_t context = 35;     ///< tokens of a sample, >= 1
};

struct ImportReport {
    ImportFormat format = ImportFormat::kAuto;  ///< the one used
    std::vector<std::string> files;             ///< read, in this order
    SampleSetInfo train;
    SampleSetInfo test;
    std::string note;  ///< what a person should know of the result; may be empty
};

/// Converts `options.inputs` into one dataset file and opens the result once to check it. Memory
/// stays small: files are streamed, but text is in memory as a whole. Blocks.
/// Errors: UsageError for options, FileError naming file, offset or line, expected and got; the
/// output is then untouched.
ImportReport import_dataset(const ImportOptions& options, Hdf5Thread& thread);

}  // namespace cohort
