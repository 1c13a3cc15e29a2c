#pragma once

#include "cohort/data/vocabulary.hpp"

#include <memory>
#include <string_view>

namespace cohort {

/// The kinds of tokenizers; see make_tokenizer. Errors: FileError naming `where`.
[[nodiscard]] std::unique_ptr<Tokenizer> make_word_tokenizer(std::string_view text,
                                                             std::string_view where);
[[nodiscard]] std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::string_view json,
                                                            std::string_view where);

}  // namespace cohort
