#pragma once

#include "cohort/data/dataset.hpp"
#include "cohort/data/import.hpp"
#include "data/import/test_split.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

struct ImportFile {
    std::string path;
    DatasetGroup group = DatasetGroup::kTrain;
};

/// A file of samples and the file of their labels, the same one in some formats.
struct ImportPair {
    ImportFile samples;
    ImportFile labels;
};

/// What belongs to the samples of a file: a class each, or `targets` numbers each.
struct ImportLabels {
    std::vector<std::int32_t> classes;  ///< [N]; empty beside targets
    std::vector<float> numbers;         ///< [N, targets]
    std::int64_t targets = 0;           ///< 0: classes
    [[nodiscard]] std::size_t size() const {
        return targets > 0 ? numbers.size() / static_cast<std::size_t>(targets) : classes.size();
    }
};

/// Where the formats put what they read: makes the writer when the first file is known, checks
/// that all files agree, splits off the test group. With options.test_fraction everything is given
/// twice: first to be counted, which needs no samples.
class ImportSink {
public:
    ImportSink(const ImportOptions& options, OutputFile output, Hdf5Thread& thread,
               std::string source);
    ImportSink(const ImportSink&) = delete;
    ImportSink& operator=(const ImportSink&) = delete;
    ~ImportSink();

    /// Announces files with samples of shape `found` (without N): [H,W] is stored as [1,H,W], and
    /// options.shape of the same size replaces it. `classes` is the format's own, 0 if none;
    /// `targets` of a sample, 0: it has a label.
    /// Errors: FileError when the file does not agree with options.shape or an earlier file.
    void begin(const ImportPair& files, std::vector<std::int64_t> found, SampleType type,
               std::int64_t classes = 0, std::int64_t targets = 0);
    /// Adds samples of the announced files with their labels or targets. Errors: FileError naming
    /// file and sample.
    void append(std::span<const std::byte> samples, std::span<const std::int32_t> labels,
                std::span<const float> targets = {});
    /// Between counting and storing. Errors: FileError when there are too few samples to split.
    void draw_split();
    /// Errors: FileError when train or test is empty, or when the labels seem to be ids.
    void commit();

    /// Whether append only counts: labels or targets are enough.
    [[nodiscard]] bool counting() const noexcept { return counting_; }

    /// options.shape, of samples.
    [[nodiscard]] const std::vector<std::int64_t>& wanted_shape() const { return options_.shape; }
    /// How many samples make a good block.
    [[nodiscard]] std::int64_t block_samples() const;
    [[nodiscard]] std::size_t sample_bytes() const;

private:
    /// A label and where it was found.
    struct Label {
        std::int32_t label = -1;
        std::int64_t sample = 0;  // within the file
        std::string file;
    };

    void check_labels(std::span<const std::int32_t> labels) const;
    void check_classes() const;
    void count(std::span<const std::int32_t> labels, std::span<const float> targets);
    void split(std::span<const std::byte> samples, std::span<const std::int32_t> labels,
               std::span<const float> targets);

    const ImportOptions& options_;
    OutputFile output_;
    Hdf5Thread& thread_;
    DatasetSpec spec_;
    std::unique_ptr<DatasetWriter> writer_;
    ImportPair files_;
    Label largest_;
    std::int64_t in_file_ = 0;  // samples of files_ so far
    bool counting_;
    std::int64_t counted_again_ = 0;  // samples that were told apart
    TestSplit split_;
};

/// A file's name in lower case, without .gz.
[[nodiscard]] std::string plain_name(const std::string& path);
/// The words of a file's name in lower case: "X_train.npy" -> x, train, npy.
[[nodiscard]] std::vector<std::string> name_words(const std::string& path);
[[nodiscard]] bool has_word(const std::string& path, std::span<const std::string_view> words);

/// Pairs samples with labels files in the order of their names within train and within test.
/// @param holds_labels  tells the two kinds apart
/// Errors: FileError when a samples or labels file is left over.
[[nodiscard]] std::vector<ImportPair> pair_files(const std::vector<ImportFile>& files,
                                                 bool (*holds_labels)(const ImportFile&));

void import_idx(const std::vector<ImportFile>& files, ImportSink& sink);
void import_cifar(ImportFormat format, const std::vector<ImportFile>& files, ImportSink& sink);
/// @param regression  integer labels are targets, as those in floating point always are
void import_npy(const std::vector<ImportFile>& files, bool regression, ImportSink& sink);
/// The images of a folder, in the order of their paths. Errors: FileError for a folder without, or
/// with images at places that are neither CLASS/IMAGE nor SPLIT/CLASS/IMAGE.
[[nodiscard]] std::vector<std::string> list_images(const std::string& root);
/// SPLIT of such an image; empty: there is none.
[[nodiscard]] std::string split_folder(const std::string& root, const std::string& image);
/// Stores images in an order drawn from options.seed; labels are numbers of their folders' names in
/// order. Draws the split by itself, since the classes are known from the names.
/// @return a line for people: images and classes
[[nodiscard]] std::string import_folder(std::vector<ImportFile> images,
                                        const ImportOptions& options, ImportSink& sink);
void import_csv(const std::vector<ImportFile>& files, const ImportOptions& options,
                ImportSink& sink);

/// Writes windows of the tokens of text. Returns ImportReport::note. Errors: FileError naming file
/// and place.
[[nodiscard]] std::string import_text(const std::vector<ImportFile>& files,
                                      const ImportOptions& options, const OutputFile& output,
                                      const std::string& source, Hdf5Thread& thread);

/// Do the first bytes of the (unpacked) file look like this format?
[[nodiscard]] bool looks_like_idx(std::span<const std::byte> start);
[[nodiscard]] bool looks_like_npy(std::span<const std::byte> start);

/// Whether a file named as IDX files are holds labels (*-idx1-ubyte) or samples (*-idx3-ubyte);
/// nothing for other names.
[[nodiscard]] std::optional<bool> named_idx_labels(const std::string& path);
/// The plain name of the file that belongs to *-images-idx3-ubyte or *-labels-idx1-ubyte; empty for
/// other names.
[[nodiscard]] std::string idx_partner(const std::string& path);

/// An integer of `bytes.size()` (1, 2, 4, 8) bytes, at most the largest of int64.
[[nodiscard]] std::int64_t decode_integer(std::span<const std::byte> bytes, bool big_endian,
                                          bool is_signed);
/// Labels as integers of `width` bytes. Errors: FileError naming a label beyond int32.
class InputStream;
[[nodiscard]] std::vector<std::int32_t> read_integer_labels(InputStream& stream, std::int64_t count,
                                                            std::size_t width, bool big_endian,
                                                            bool is_signed);
/// Targets. @param kind  'f' (4 or 8 bytes), 'i' or 'u'
[[nodiscard]] std::vector<float> read_target_numbers(InputStream& stream, std::int64_t count,
                                                     std::size_t width, bool big_endian, char kind);
/// Streams the samples of `pair` into `sink`; `stream` stands behind the header of their file.
/// @param shape  that the header gives, [N, ...]
/// @param channels_last  of samples [H,W,C], which are stored as [C,H,W]
/// Errors: FileError when there are more or fewer samples than labels.
void import_samples(InputStream& stream, const ImportPair& pair, const ImportLabels& labels,
                    const std::vector<std::int64_t>& shape, SampleType type, bool big_endian,
                    ImportSink& sink, bool channels_last = false);

/// The files to import and their format.
struct ImportSelection {
    ImportFormat format = ImportFormat::kAuto;
    std::vector<std::string> files;
};

/// Settles files and format of `options`. In a folder a file belongs to a format by its name
/// (data_batch_1.bin, train-images-idx3-ubyte.gz, x.npy, ...) whatever it holds, so that a damaged
/// one is refused when it is read; a file of another name by its first bytes. Files of no or
/// another format are passed over, which the log says.
/// Errors: FileError for an input that does not exist, a folder without files of the format or
/// without a part of a known set; UsageError for several formats.
[[nodiscard]] ImportSelection select_import_files(const ImportOptions& options);

}  // namespace cohort
