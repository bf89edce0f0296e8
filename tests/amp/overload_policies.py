"""What autocast on CUDA does to the overloads that torch registers for AutocastCUDA: registration tells that there is
a kernel, and not which. From torch/include/ATen/autocast_mode.h and aten/src/ATen/autocast_mode.cpp; the recurrent
ones from aten/src/ATen/cudnn/AutocastRNN.cpp, where they end in _cudnn_rnn, which CUDA builds alone register."""

from __future__ import annotations

POLICIES = {
    "lower": """
        _convolution _convolution.deprecated _scaled_dot_product_flash_attention _thnn_fused_gru_cell
        _thnn_fused_lstm_cell addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d
        conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution
        cudnn_convolution cudnn_convolution_transpose einsum gru_cell linalg_multi_dot linalg_vecdot
        linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
    """,
    "float32": """
        _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d acos asin binary_cross_entropy_with_logits
        cdist cosh cosine_embedding_loss cosine_similarity dist erfinv exp expm1 frobenius_norm.dim
        group_norm hinge_embedding_loss huber_loss kl_div l1_loss layer_norm linalg_matrix_sqrth log log10 log1p log2
        logsumexp margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm
        nll_loss nll_loss2d nuclear_norm nuclear_norm.dim pdist poisson_nll_loss pow.Scalar
        pow.Tensor_Scalar pow.Tensor_Tensor reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss
        soft_margin_loss softplus tan triplet_margin_loss upsample_bicubic2d upsample_bilinear2d
        upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
    """,
    "optional_dtype": """
        cumprod cumprod.dimname cumsum cumsum.dimname linalg_matrix_norm linalg_matrix_norm.str_ord
        linalg_vector_norm log_softmax.Dimname log_softmax.int prod prod.dim_Dimname prod.dim_int
        softmax.Dimname softmax.int sum sum.dim_DimnameList sum.dim_IntList
    """,
    "appended_dtype": """
        norm.Scalar norm.ScalarOpt_dim norm.names_ScalarOpt_dim
    """,
    "promote": """
        addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot
    """,
    "banned": """
        binary_cross_entropy
    """,
    "recurrent": """
        gru.input lstm.input rnn_relu.input rnn_tanh.input
    """,
}
"""Overloads by what happens to them; see ``amplint.amp.ops.overload_policies``."""
